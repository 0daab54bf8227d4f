"""Starts moto with the calls that it lacks and the AWS provider of Terraform needs.

    python moto_server.py PORT

Without Athena's PutQueryDefinition and DeleteNamedQuery, the provider repeats its requests for minutes.
"""

import logging
import sys

import moto.athena.responses
from moto.athena.models import athena_backends
from moto.athena.responses import AthenaResponse
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


def delete_named_query(self):
    backend = athena_backends[self.current_account][self.region]
    backend.named_queries.pop(self._get_param("NamedQueryId"), None)
    return "{}"


def main():
    AthenaResponse.delete_named_query = delete_named_query
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", int(sys.argv[1]), application, threaded=True)
    print("ready", flush=True)
    server.serve_forever()


main()

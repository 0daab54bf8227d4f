# The targets of the model's events. They are not created here: consumers own them.

locals {
  # The targets that event rules name (`-` is the default target), and their ARNs. Descriptions of earlier versions have no events.
  event_targets     = distinct([for rule in values(try(local.model.events, {})) : coalesce(try(rule.to, null), "-")])
  given_events      = merge(var.events_arn == null ? {} : { "-" = var.events_arn }, var.event_target_arns)
  event_target_arns = { for to in local.event_targets : (to == "-" ? "" : to) => try(local.given_events[to], null) }

  events_env = { for to, arn in local.event_target_arns : to == "" ? "AFTERWRITE_EVENTS" : "AFTERWRITE_EVENTS_${upper(to)}" => arn }

  # Each ARN is of one service, so only one of the actions applies to it.
  event_statement = {
    Sid       = "Events"
    Action    = ["events:PutEvents", "sns:Publish", "sqs:SendMessage"]
    Resource  = sort(distinct(compact(values(local.event_target_arns))))
    Condition = null
    when      = local.has_events
  }
}

variable "events_arn" {
  description = "The EventBridge bus, SQS queue or SNS topic that takes the events of rules without `to`."
  type        = string
  default     = null

  validation {
    condition     = var.events_arn == null || can(regex("^arn:[a-z-]+:(events:[a-z0-9-]+:[0-9]{12}:event-bus/.+|s[qn]s:[a-z0-9-]+:[0-9]{12}:[^:]+)$", var.events_arn))
    error_message = "events_arn is the ARN of an EventBridge bus, an SQS queue or an SNS topic: arn:aws:events:<region>:<account>:event-bus/<name>, arn:aws:sqs:<region>:<account>:<name> or arn:aws:sns:<region>:<account>:<name>."
  }
}

variable "event_target_arns" {
  description = "The buses, queues and topics that rules name with `to`, by this name. An item's events keep their order in a FIFO queue or topic, whose name ends in `.fifo`."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for arn in values(var.event_target_arns) : can(regex("^arn:[a-z-]+:(events:[a-z0-9-]+:[0-9]{12}:event-bus/.+|s[qn]s:[a-z0-9-]+:[0-9]{12}:[^:]+)$", arn))])
    error_message = "event_target_arns has ARNs of EventBridge buses, SQS queues and SNS topics."
  }
}

//! Requests of other sites, of strangers, and hostile texts.

use afterwrite_tests::development::{Development, SHOP, model_file, number, text};

use super::http::ConsoleClient;

/// Whether a response has the headers that keep a page to itself.
fn is_guarded(head: &str) -> bool {
    let head = head.to_lowercase();
    [
        "content-security-policy: default-src 'none'",
        "frame-ancestors 'none'",
        "x-frame-options: deny",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
    ]
    .into_iter()
    .all(|header| head.contains(header))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn requests_of_other_sites_are_refused() {
    let (_folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap()]);
    let console = ConsoleClient::of(&development);
    let own = console.get("/health");
    assert_eq!(own.status, 200, "{}", own.body);
    assert!(is_guarded(&own.head), "{}", own.head);
    // DNS rebinding: a name of another site that points to this machine.
    for host in ["evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", ""] {
        let refused = console.request("GET", "/", &[("Host", host)], "");
        assert_eq!(refused.status, 403, "{host}: {}", refused.body);
        assert!(is_guarded(&refused.head), "{}", refused.head);
    }
    check_other_sites(&console);
    let token = console.token("/health/run?command=verify");
    let form = format!("token={token}&command=verify");
    let host = console.host.clone();
    let origin = format!("http://{host}");
    let own = [("Host", host.as_str()), ("Origin", origin.as_str())];
    for (reason, headers, body) in [
        ("no origin", vec![own[0]], form.as_str()),
        ("a foreign origin", vec![own[0], ("Origin", "http://evil.example")], form.as_str()),
        ("no origin that is known", vec![own[0], ("Origin", "null")], form.as_str()),
        ("a cross-site request", vec![own[0], own[1], ("Sec-Fetch-Site", "cross-site")], form.as_str()),
        ("another port of this machine", vec![own[0], ("Origin", "http://127.0.0.1:1")], form.as_str()),
        ("no token", own.to_vec(), "command=verify"),
        ("a wrong token", own.to_vec(), "token=x&command=verify"),
    ] {
        let refused = console.request("POST", "/health/run", &headers, body);
        assert_eq!(refused.status, 403, "{reason}: {}", refused.body);
    }
    for method in ["PUT", "DELETE", "PATCH"] {
        assert_eq!(console.request(method, "/health/run", &own, &form).status, 405, "{method}");
    }
    assert_eq!(console.post("/health/run", &form).status, 303);
    assert!(console.get("/health").body.contains("afterwrite verify --report"));
}

/// Another site can neither load a page into itself nor make a reader open one unseen; a link of another site asks first.
fn check_other_sites(console: &ConsoleClient) {
    let host = ("Host", console.host.as_str());
    let request = |site, mode, target| {
        let headers = [host, ("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", mode), ("Sec-Fetch-Dest", target)];
        console.request("GET", "/health/run?command=redrive&x=%22%3E", &headers, "")
    };
    for (site, mode, target) in [
        ("cross-site", "no-cors", "image"),
        ("cross-site", "navigate", "iframe"),
        ("same-site", "cors", "empty"),
        ("same-site", "no-cors", "script"),
    ] {
        assert_eq!(request(site, mode, target).status, 403, "{site} {mode} {target}");
    }
    let asked = request("cross-site", "navigate", "document");
    assert!(asked.body.contains("Another site has opened a page"), "{}", asked.body);
    assert!(!asked.body.contains("items would change") && is_guarded(&asked.head), "{}", asked.body);
    for site in ["none", "same-origin"] {
        assert!(request(site, "navigate", "document").body.contains("items would change"), "{site}");
    }
}

/// A key of an item is text wherever it is shown.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the release binaries: run tests/run"]
async fn hostile_keys_are_text_in_every_page() {
    const SCRIPT: &str = "<script>alert(1)</script>\"'\u{202e}";
    let (_folder, model) = model_file(SHOP);
    let development = Development::start(&["--model", model.to_str().unwrap(), "--show-items"]);
    let console = ConsoleClient::of(&development);
    let put = development.client.put_item().table_name("Corner");
    let put = put.item("PK", text(&format!("CUSTOMER#{SCRIPT}"))).item("SK", text("ORDER#<img src=x>"));
    put.item("price", number("5")).item("note", text(SCRIPT)).send().await.unwrap();
    development.prints("<img src=x>").await;
    let key = "%3Cscript%3Ealert%281%29%3C%2Fscript%3E%22%27%E2%80%AE";
    for path in [
        "/",
        "/rollups",
        "/play",
        "/health",
        &format!("/item?table=Corner&pk=CUSTOMER%23{key}&sk=ORDER%23%3Cimg%20src%3Dx%3E"),
        &format!("/rollups/at?pk=CUSTOMER%23{key}&sk=TOTAL"),
        &format!("/item?table={key}&pk={key}"),
        &format!("/rollups/at?pk={key}&sk={key}"),
        &format!("/health/job?id={key}"),
        &format!("/health/findings?check={key}"),
        &format!("/health/run?command={key}"),
        &format!("/health?parked_after={key}"),
    ] {
        let page = console.get(path);
        assert!(page.status < 500, "{path}: {} {}", page.status, page.body);
        assert!(is_guarded(&page.head), "{path}: {}", page.head);
        // An input and an address keep the exact key.
        let shown = without_values(&page.body);
        for raw in ["<script>alert", "<img src", "\u{202e}"] {
            assert!(!shown.contains(raw), "{path} has {raw} as it is:\n{shown}");
        }
    }
    development.stop();
}

/// A page without the values of its inputs.
fn without_values(page: &str) -> String {
    let mut parts = page.split(" value=\"");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| shown + part.split_once('"').map_or("", |(_, rest)| rest))
}

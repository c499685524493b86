//! A headless Chromium, which a test controls over its debugging pipe (JSON messages, each followed
//! by a NUL): no port, no web socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

/// Longest wait for one reply.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// The browser of this host: MILLRACE_BROWSER, or the first of the usual names that is installed.
pub fn installed() -> Option<PathBuf> {
    let chosen = std::env::var_os("MILLRACE_BROWSER").map(PathBuf::from);
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    chosen.or_else(|| names.into_iter().find_map(super::find_program))
}

/// A browser with one open page. Dropping it ends the browser.
pub struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    last: u64,
    /// Events received while a reply was awaited.
    events: Vec<Value>,
}

impl Browser {
    /// Starts the browser with its own profile in `folder`.
    pub fn start(program: &Path, folder: &Path) -> Self {
        // The shell connects the ends of the pipe to the descriptors that the browser uses: 3 to
        // read, 4 to write.
        let script = "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(program);
        command.args(["--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--hide-scrollbars"]);
        command.args(["--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update"]);
        command.args(["--no-sandbox", "--disable-extensions", "--disable-sync", "--mute-audio"]); // root may not use the sandbox
        command.arg(format!("--user-data-dir={}", folder.display())).env("HOME", folder).env("TMPDIR", folder).arg("about:blank");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn().unwrap();
        let commands = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (send, messages) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while output.read_until(0, &mut message).is_ok_and(|count| count > 0) {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else { break };
                if send.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let mut browser = Self { child, commands, messages, session: None, last: 0, events: Vec::new() };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}))["targetId"].clone();
        let session = browser.call("Target.attachToTarget", &json!({"targetId": target, "flatten": true}))["sessionId"].clone();
        browser.session = session.as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Calls a method of the protocol and returns its result.
    pub fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.commands.write_all(&bytes).unwrap();
        self.commands.flush().unwrap();
        let end = Instant::now() + ANSWER_MAX;
        loop {
            let answer = self.next(end, method);
            if answer["id"] == json!(self.last) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    /// Opens a file at a size and in a colour scheme, and waits until it has loaded.
    pub fn open(&mut self, file: &Path, (width, height): (u32, u32), scheme: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", &json!({"features": features}));
        self.events.retain(|event| event["method"] != "Page.loadEventFired");
        self.call("Page.navigate", &json!({"url": format!("file://{}", file.display())}));
        let end = Instant::now() + ANSWER_MAX;
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next(end, "the page to load");
            self.events.push(event);
        }
    }

    /// Value of an expression on the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let answer =
            self.call("Runtime.evaluate", &json!({"expression": expression, "returnByValue": true, "awaitPromise": true}));
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Stores a picture of the complete page, not only of the part in the window.
    pub fn picture(&mut self, file: &Path) {
        let whole = self.call("Page.getLayoutMetrics", &json!({}))["cssContentSize"].clone();
        let clip = json!({"x": 0, "y": 0, "width": whole["width"], "height": whole["height"], "scale": 1});
        let picture = self.call("Page.captureScreenshot", &json!({"format": "png", "clip": clip, "captureBeyondViewport": true}));
        std::fs::write(file, decoded(&picture)).unwrap();
    }

    /// Prints the page to a PDF file in A4.
    pub fn print(&mut self, file: &Path) {
        let size = json!({"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": true});
        let pdf = self.call("Page.printToPDF", &size);
        std::fs::write(file, decoded(&pdf)).unwrap();
    }

    /// Warnings and errors of the console, exceptions, and requests to other places.
    pub fn complaints(&mut self) -> Vec<String> {
        self.events.extend(self.messages.try_iter());
        let bad = |event: &Value| {
            let parameters = &event["params"];
            match event["method"].as_str()? {
                "Runtime.exceptionThrown" => Some(parameters["exceptionDetails"].to_string()),
                "Runtime.consoleAPICalled" if parameters["type"] != "log" => Some(parameters.to_string()),
                "Log.entryAdded" if parameters["entry"]["level"] != "info" => Some(parameters["entry"].to_string()),
                "Network.requestWillBeSent" => {
                    let url = parameters["request"]["url"].as_str()?;
                    (!["file:", "data:", "blob:", "about:"].iter().any(|own| url.starts_with(own)))
                        .then(|| format!("fetched {url}"))
                }
                _ => None,
            }
        };
        let found = self.events.iter().filter_map(bad).collect();
        self.events.clear();
        found
    }

    fn next(&mut self, end: Instant, awaited: &str) -> Value {
        match self.messages.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => panic!("waited {ANSWER_MAX:?} for {awaited}"),
            Err(RecvTimeoutError::Disconnected) => panic!("the browser ended before {awaited}: {:?}", self.child.try_wait()),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser's helper processes are in its process group.
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}

fn decoded(answer: &Value) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD.decode(answer["data"].as_str().unwrap()).unwrap()
}

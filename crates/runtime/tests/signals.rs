//! Alone in its process, because from here on the process does not end when somebody at a terminal asks it to.

use std::process::{Command, id};

use runtime::tasks::shutdown_signal;

#[tokio::test]
async fn both_signals_ask_for_the_end() {
    for name in ["TERM", "INT"] {
        let asked = shutdown_signal().unwrap();
        let command = format!("kill -s {name} {}", id());
        assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
        asked.await;
    }
}

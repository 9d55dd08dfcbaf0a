//! The scheduler's own list of nodes that passed every filter.
//!
//! A scheduler tells nobody which nodes it could have taken. But it asks an extender, a web server of its operator's, to
//! narrow its choice, and hands it exactly the nodes that every filter of its own let through. With fewer than a hundred
//! nodes it looks at all of them, so the list is complete. When no node is left, it asks nobody and reports the pod.
//!
//! The extender then answers with one drawn node. So the scheduler's preferences and its own dice do not decide how a world
//! goes on, and every run of a seed is the same. A node that it takes alone also leaves nothing over for the next pod of
//! the same kind to be tried first, so every pod is tried on every node.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What the scheduler is told about a pod.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// Take the one at this place among the nodes, counted around and around.
    Take(usize),
    /// Take none: only the list is wanted.
    Hold,
}

#[derive(Default)]
struct Notes {
    answers: BTreeMap<String, Answer>,
    heard: BTreeMap<String, Vec<String>>,
}

pub(crate) struct Extender {
    address: SocketAddr,
    notes: Arc<Mutex<Notes>>,
}

impl Extender {
    /// Listens on a free port of loopback for as long as the runtime lives.
    pub(crate) async fn listen() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listening for the scheduler")?;
        let address = listener.local_addr().context("asking for the extender's port")?;
        let notes = Arc::new(Mutex::new(Notes::default()));
        tokio::spawn(serve(listener, notes.clone()));
        Ok(Self { address, notes })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Says what to answer for a pod that is about to be created. For any other pod the answer is none: a pod that waits
    /// from before may be tried again at any time, and must not get in the way.
    pub(crate) fn expect(&self, pod: &str, answer: Answer) {
        let mut notes = lock(&self.notes);
        notes.answers = [(pod.to_owned(), answer)].into();
        notes.heard.clear();
    }

    /// The nodes that the filters let through, when the scheduler first asked about the pod; none if it never did.
    pub(crate) fn feasible(&self, pod: &str) -> Vec<String> {
        lock(&self.notes).heard.get(pod).cloned().unwrap_or_default()
    }
}

fn lock(notes: &Mutex<Notes>) -> MutexGuard<'_, Notes> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, notes: Arc<Mutex<Notes>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        // The scheduler then reports an error for the pod, and the test fails on that.
        if let Err(problem) = reply(stream, &notes).await {
            eprintln!("extender: {problem:#}");
        }
    }
}

async fn reply(stream: TcpStream, notes: &Mutex<Notes>) -> Result<()> {
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.context("reading a header")?;
        let Some((name, value)) = line.split_once(':') else {
            if line.trim().is_empty() {
                break;
            }
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().context("reading the length")?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.context("reading the question")?;
    let question: Value = serde_json::from_slice(&body).context("understanding the question")?;
    let answer = answer(&question, notes).context("the question lacks a pod or nodes")?.to_string();
    let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", answer.len());
    stream.write_all((head + &answer).as_bytes()).await.context("answering")?;
    stream.shutdown().await.context("closing the connection")
}

fn answer(question: &Value, notes: &Mutex<Notes>) -> Option<Value> {
    let pod = question["Pod"]["metadata"]["name"].as_str()?;
    let mut nodes: Vec<String> = serde_json::from_value(question["NodeNames"].clone()).ok()?;
    nodes.sort();
    let mut notes = lock(notes);
    let taken = match notes.answers.get(pod) {
        Some(Answer::Take(place)) => vec![nodes[place % nodes.len()].clone()],
        _ => Vec::new(),
    };
    notes.heard.entry(pod.to_owned()).or_insert(nodes);
    Some(json!({"NodeNames": taken}))
}

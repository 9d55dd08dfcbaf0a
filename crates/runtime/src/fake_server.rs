//! For tests: an API server that is a closure. No sockets, so it works under a paused clock.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use kube::Client;
use kube::client::{Body, ClientBuilder};
use serde_json::Value;
use tower::BoxError;

use crate::connect::{RequestLimits, client_around};

/// A request as the closure sees it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    /// Null when there was none.
    pub(crate) body: Value,
}

pub(crate) enum Reply {
    Json(u16, Value),
    Text(u16, &'static str),
    /// The lines of a watch, sent as they come.
    Lines(BoxStream<'static, Value>),
    /// The connection breaks.
    Broken,
    Never,
}

impl Reply {
    /// Lines that are all there, and a connection that stays open after them.
    pub(crate) fn open(lines: Vec<Value>) -> Self {
        Self::Lines(stream::iter(lines).chain(stream::pending()).boxed())
    }

    /// Lines that are all there, and a connection that ends after them.
    pub(crate) fn closed(lines: Vec<Value>) -> Self {
        Self::Lines(stream::iter(lines).boxed())
    }
}

/// A `Status` document as the API server sends it with an error.
pub(crate) fn status(code: u16, reason: &str) -> Value {
    serde_json::json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason})
}

type Answer = Arc<Mutex<dyn FnMut(&Asked) -> Reply + Send>>;

#[derive(Clone)]
pub(crate) struct FakeServer {
    answer: Answer,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl FakeServer {
    pub(crate) fn new(answer: impl FnMut(&Asked) -> Reply + Send + 'static) -> Self {
        Self { answer: Arc::new(Mutex::new(answer)), asked: Arc::default() }
    }

    pub(crate) fn client(&self) -> Client {
        self.client_with(RequestLimits::default())
    }

    pub(crate) fn client_with(&self, limits: RequestLimits) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request| server.clone().serve(request));
        client_around(ClientBuilder::new(service, "default"), limits)
    }

    /// Every request so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    async fn serve(self, request: Request<Body>) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let asked = Asked {
            method: head.method,
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        };
        self.asked.lock().unwrap().push(asked.clone());
        let reply = (self.answer.lock().unwrap())(&asked);
        let (code, chunks) = match reply {
            Reply::Json(code, value) => (code, whole(value.to_string())),
            Reply::Text(code, text) => (code, whole(text.to_owned())),
            Reply::Lines(lines) => (200, lines.map(|line| format!("{line}\n")).boxed()),
            Reply::Broken => return Err("connection reset by peer".into()),
            Reply::Never => std::future::pending().await,
        };
        let frames = chunks.map(|chunk| Ok(http_body::Frame::data(Bytes::from(chunk))));
        Ok(Response::builder().status(code).body(StreamBody::new(frames).boxed_unsync())?)
    }
}

fn whole(text: String) -> BoxStream<'static, String> {
    stream::once(async { text }).boxed()
}

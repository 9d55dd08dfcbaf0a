//! The small server that others ask how we are: metrics and probes.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::error::RuntimeError;
use crate::metrics;
use crate::tasks::Stop;

/// What is answered on which path.
#[derive(Clone, Default)]
pub struct Routes(Router);

impl Routes {
    /// `/metrics`, as the text that the closure gives.
    #[must_use]
    pub fn metrics(self, text: impl Fn() -> String + Send + Sync + 'static) -> Self {
        let text = Arc::new(text);
        let answer = move || async move { ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text()) };
        Self(self.0.route("/metrics", get(answer)))
    }

    /// `/healthz`: whether the process should be left alive.
    #[must_use]
    pub fn healthz(self, is_healthy: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.probe("/healthz", is_healthy)
    }

    /// `/readyz`: whether the process does its work.
    #[must_use]
    pub fn readyz(self, is_ready: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.probe("/readyz", is_ready)
    }

    fn probe(self, path: &'static str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        let check = Arc::new(check);
        let answer = move || async move {
            match check() {
                Ok(()) => (StatusCode::OK, "ok".to_owned()).into_response(),
                Err(reason) => (StatusCode::INTERNAL_SERVER_ERROR, reason).into_response(),
            }
        };
        Self(self.0.route(path, get(answer)))
    }
}

/// A server that has its port already, so that a port in use is an error at the start.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    pub async fn bind(address: SocketAddr) -> Result<Self, RuntimeError> {
        let failed = |source| RuntimeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Where it listens; of use when port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until the stop is given, and then finishes the answers that are under way.
    pub async fn run(self, routes: Routes, stop: Stop) -> Result<(), RuntimeError> {
        let served = axum::serve(self.listener, routes.0).with_graceful_shutdown(stop.cancelled_owned());
        served.await.map_err(|source| RuntimeError::Serve { address: self.address, source })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn metrics_and_probes_are_answered_until_the_stop() {
        let is_synced = Arc::new(AtomicBool::new(false));
        let flag = is_synced.clone();
        let routes = Routes::default().metrics(|| "up 1\n".to_owned()).healthz(|| Ok(())).readyz(move || {
            if flag.load(Ordering::Relaxed) { Ok(()) } else { Err("pods are not listed yet".to_owned()) }
        });
        let server = Server::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let (address, stop) = (server.address(), Stop::new());
        let asking = async {
            let metrics = ask(address, "/metrics").await;
            assert!(metrics.starts_with("HTTP/1.1 200") && metrics.ends_with("up 1\n"), "{metrics}");
            assert!(metrics.contains("content-type: text/plain; version=0.0.4"), "{metrics}");
            assert!(ask(address, "/healthz").await.ends_with("ok"));
            let unready = ask(address, "/readyz").await;
            assert!(unready.starts_with("HTTP/1.1 500") && unready.ends_with("pods are not listed yet"), "{unready}");
            is_synced.store(true, Ordering::Relaxed);
            assert!(ask(address, "/readyz").await.starts_with("HTTP/1.1 200"));
            assert!(ask(address, "/else").await.starts_with("HTTP/1.1 404"));
            stop.cancel();
        };
        let (served, ()) = futures::join!(server.run(routes, stop.clone()), asking);
        served.unwrap();
    }

    #[tokio::test]
    async fn a_port_in_use_is_an_error_at_the_start() {
        let first = Server::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let error = Server::bind(first.address()).await.err().unwrap();
        assert!(error.to_string().starts_with("cannot listen on 127.0.0.1:"), "{error}");
    }
}

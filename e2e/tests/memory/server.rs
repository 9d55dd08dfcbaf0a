//! The API server in memory behind a socket on loopback, for a controller that is a process of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::mpsc;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use sim::ApiServer;
use tokio::net::TcpListener;

/// Serves on a free port until the process ends, from a thread of its own. Says where.
pub(crate) fn serve(server: ApiServer) -> Result<SocketAddr> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            tell.send(listener.local_addr()?)?;
            axum::serve(listener, Router::new().fallback(answer).with_state(server.client())).await?;
            Ok(())
        })
    });
    told.recv().context("the server did not start")
}

/// A kubeconfig that leads to it.
pub(crate) fn write_kubeconfig(path: &Path, address: SocketAddr) -> Result<()> {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: memory\n\
         clusters: [{{name: memory, cluster: {{server: 'http://{address}'}}}}]\n\
         users: [{{name: nobody, user: {{}}}}]\n\
         contexts: [{{name: memory, context: {{cluster: memory, user: nobody, namespace: kube-system}}}}]\n"
    );
    std::fs::write(path, text).context("writing a kubeconfig")
}

async fn answer(State(client): State<Client>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes().to_vec(),
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    match client.send(http::Request::from_parts(head, Body::from(body))).await {
        Ok(response) => response.map(axum::body::Body::new),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

//! The HTTP server: `/metrics`, `/livez`, `/readyz`, `/startupz` and a small page at `/`.
//!
//! What it says comes from closures, so that a controller and an agent share it. A probe's answer is 200 or 503,
//! with a sentence for a person in the body.
//!
//! # Guarantees
//! Anybody in the cluster's network may knock here, so nobody can hold much: at most [`MOST_CONNECTIONS`] connections of
//! [`LONGEST_HEAD`] bytes each, the oldest ended for the next one (a probe always gets in), and a request's head is
//! there within [`HEAD`].

use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// Connections that are open at once.
pub const MOST_CONNECTIONS: usize = 64;
/// Bytes of a request's head, and of what is read at once.
pub const LONGEST_HEAD: usize = 16 << 10;
/// The head of a request is there within this time; a connection that asks nothing for so long is ended.
pub const HEAD: Duration = Duration::from_secs(10);
/// No connection lasts longer than this: somebody may read an answer a byte at a time.
const LONGEST: Duration = Duration::from_mins(2);
/// When no connection can be taken (no file descriptors), it is tried again after this time.
const PAUSE: Duration = Duration::from_millis(50);

/// The answer of a probe: what is well, or what is missing.
pub type Health = Result<String, String>;
/// Something that is asked at every request. It must not block.
pub type Ask<T> = Arc<dyn Fn() -> T + Send + Sync>;

/// What the server serves.
#[derive(Clone)]
pub struct Pages {
    /// `/metrics`, in Prometheus' text format.
    pub metrics: Ask<String>,
    /// `/livez`: fails when only a restart helps.
    pub live: Ask<Health>,
    /// `/readyz`: fails while the process cannot do its work.
    pub ready: Ask<Health>,
    /// `/startupz`; without it the path is not served.
    pub startup: Option<Ask<Health>>,
    /// `/`, as HTML.
    pub index: Ask<String>,
}

/// Why the server could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}; is another process using the port?")]
pub struct ListenError {
    address: SocketAddr,
    #[source]
    source: std::io::Error,
}

/// A server that listens already: from here on connections are accepted.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Listens on every address of the machine, IPv6 and IPv4, or on IPv4 alone where there is no IPv6. Port 0 takes
    /// a free one.
    pub async fn listen(port: u16) -> Result<Self, ListenError> {
        let both = SocketAddr::from(([0u16; 8], port));
        match TcpListener::bind(both).await {
            Ok(listener) => Ok(Self::of(listener, both)),
            Err(source) if source.kind() == std::io::ErrorKind::AddrInUse => Err(ListenError {
                address: both,
                source,
            }),
            Err(_) => {
                let address = SocketAddr::from(([0u8; 4], port));
                let listener = TcpListener::bind(address)
                    .await
                    .map_err(|source| ListenError { address, source })?;
                Ok(Self::of(listener, address))
            }
        }
    }

    fn of(listener: TcpListener, asked: SocketAddr) -> Self {
        let address = listener.local_addr().unwrap_or(asked);
        Self { listener, address }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the pages until `end` is there.
    pub async fn serve(self, pages: Pages, end: impl Future<Output = ()> + Send + 'static) {
        self.serve_routes(router(pages), end).await;
    }

    /// Serves routes until `end` is there.
    pub async fn serve_routes(self, routes: Router, end: impl Future<Output = ()> + Send + 'static) {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .max_buf_size(LONGEST_HEAD);
        let mut open: VecDeque<AbortHandle> = VecDeque::new();
        let mut end = pin!(end);
        loop {
            let accepted = tokio::select! {
                () = &mut end => break,
                accepted = self.listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            open.retain(|connection| !connection.is_finished());
            if open.len() == MOST_CONNECTIONS
                && let Some(oldest) = open.pop_front()
            {
                oldest.abort();
            }
            let service = TowerToHyperService::new(routes.clone());
            let connection = http.serve_connection(TokioIo::new(stream), service);
            let connection = tokio::spawn(async move {
                let _ = tokio::time::timeout(LONGEST, connection).await;
            });
            open.push_back(connection.abort_handle());
        }
        open.iter().for_each(AbortHandle::abort);
    }
}

/// The routes, for a test or a server of one's own.
pub fn router(pages: Pages) -> Router {
    let Pages {
        metrics,
        live,
        ready,
        startup,
        index,
    } = pages;
    let mut router = Router::new()
        .route("/", get(move || std::future::ready(Html(index()))))
        .route(
            "/metrics",
            get(move || {
                let text = metrics();
                std::future::ready(([(header::CONTENT_TYPE, super::metrics::CONTENT_TYPE)], text))
            }),
        )
        .route("/livez", get(move || std::future::ready(answer(live()))))
        .route("/readyz", get(move || std::future::ready(answer(ready()))));
    if let Some(startup) = startup {
        router = router.route("/startupz", get(move || std::future::ready(answer(startup()))));
    }
    router
}

fn answer(health: Health) -> Response {
    match health {
        Ok(text) => (StatusCode::OK, text + "\n").into_response(),
        Err(text) => (StatusCode::SERVICE_UNAVAILABLE, text + "\n").into_response(),
    }
}

/// `text` with what HTML would take for its own replaced.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use tower::ServiceExt;

    use super::*;

    fn pages(ready: Health) -> Pages {
        Pages {
            metrics: Arc::new(|| "up 1\n".into()),
            live: Arc::new(|| Ok("alive".into())),
            ready: Arc::new(move || ready.clone()),
            startup: None,
            index: Arc::new(|| "<p>hello".into()),
        }
    }

    async fn get(pages: Pages, path: &str) -> (u16, String) {
        let request = axum::http::Request::get(path)
            .body(axum::body::Body::empty())
            .unwrap();
        let response = router(pages).oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 16).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_probe_says_what_is_missing() {
        let missing = "the kind SampleDB is not served".to_owned();
        assert_eq!(
            get(pages(Err(missing.clone())), "/readyz").await,
            (503, missing + "\n")
        );
        assert_eq!(
            get(pages(Ok("ready".into())), "/readyz").await,
            (200, "ready\n".into())
        );
        assert_eq!(get(pages(Ok("ready".into())), "/livez").await.0, 200);
        assert_eq!(
            get(pages(Ok("ready".into())), "/metrics").await,
            (200, "up 1\n".into())
        );
    }

    #[tokio::test]
    async fn a_startup_probe_is_served_only_where_there_is_one() {
        assert_eq!(get(pages(Ok(String::new())), "/startupz").await.0, 404);
        let with = Pages {
            startup: Some(Arc::new(|| Err("no socket yet".into()))),
            ..pages(Ok(String::new()))
        };
        assert_eq!(get(with, "/startupz").await, (503, "no socket yet\n".into()));
    }

    #[tokio::test]
    async fn a_taken_port_is_said_and_not_shared() {
        let first = Server::listen(0).await.unwrap();
        let error = Server::listen(first.address().port()).await.unwrap_err();
        assert!(error.to_string().contains("another process"), "{error}");
    }

    #[tokio::test]
    async fn a_probe_gets_in_however_many_hold_a_connection_open() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        use tokio::net::TcpStream;
        let server = Server::listen(0).await.unwrap();
        let to = ("127.0.0.1", server.address().port());
        let serving = tokio::spawn(server.serve(pages(Ok("ready".into())), std::future::pending()));
        let mut idle = Vec::new();
        for _ in 0..3 * MOST_CONNECTIONS {
            let mut stream = TcpStream::connect(to).await.unwrap();
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ").await;
            idle.push(stream);
        }
        let mut probe = TcpStream::connect(to).await.unwrap();
        probe
            .write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut said = String::new();
        probe.read_to_string(&mut said).await.unwrap();
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
        // The oldest was ended to make room, long before its time was over.
        let mut byte = [0];
        let ended = tokio::time::timeout(HEAD / 2, idle[0].read(&mut byte)).await;
        assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
        serving.abort();
    }

    #[tokio::test]
    async fn an_endless_head_is_not_read_to_its_end() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let server = Server::listen(0).await.unwrap();
        let to = ("127.0.0.1", server.address().port());
        tokio::spawn(server.serve(pages(Ok("ready".into())), std::future::pending()));
        let mut stream = tokio::net::TcpStream::connect(to).await.unwrap();
        stream.write_all(b"GET /readyz HTTP/1.1\r\n").await.unwrap();
        let line = format!("X: {}\r\n", "x".repeat(1000));
        let mut sent = 0;
        while sent < 64 * LONGEST_HEAD && stream.write_all(line.as_bytes()).await.is_ok() {
            sent += line.len();
        }
        let mut said = String::new();
        let _ = stream.read_to_string(&mut said).await;
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 431"), "{said}");
        assert!(sent < 64 * LONGEST_HEAD, "all of it was read");
    }

    #[test]
    fn an_error_text_cannot_become_markup() {
        assert_eq!(escaped("<b a='1'>&\""), "&lt;b a=&#39;1&#39;&gt;&amp;&quot;");
    }
}

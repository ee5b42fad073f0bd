//! The client of the API server: lean, with a limit on every wait, and counted.
//!
//! - no hidden retries: the queue's backoff is the only one;
//! - no compression (it breaks watches on some servers) and no second TLS provider than ring;
//! - the head of every answer within [`HEAD_TIMEOUT`], a silent connection ended after [`SILENCE`];
//! - at most [`MOST_REQUESTS`] requests wait for their head at once, so that a burst does not open a connection for
//!   each; those for Leases go first.
//!
//! It knows one way to the API server, that of a pod. `kube`'s own stack also reads kubeconfigs, logs each failed
//! request as an error of its own, and links the parsers for its login plugins (a fifth of a controller).

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::{AUTHORIZATION, USER_AGENT};
use http::{HeaderValue, Request, Response, StatusCode};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use kube::core::Status;
use kube::core::request::Request as ApiRequest;
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tower::filter::Filter;
use tower::{BoxError, Layer, Service};

use super::trust::{self, TrustError};
use crate::telemetry::metrics::Requests;

/// The server ends a watch after so long, and the client starts it again.
pub const WATCH_TIMEOUT: Duration = Duration::from_mins(2);
/// A connection that says nothing for so long is dead. Longer than a watch lasts.
pub const SILENCE: Duration = Duration::from_secs(150);
/// An answer begins within this time.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(20);
/// So many requests wait for the head of their answer at once. Each has a connection, and each connection its buffers.
pub const MOST_REQUESTS: usize = 12;

/// A connection is made within this time.
const CONNECT: Duration = Duration::from_secs(5);
/// A request is written within this time.
const WRITE: Duration = Duration::from_secs(10);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no ServiceAccount.
    #[error("no way to the API server is known: {0}; this program runs inside a pod with a ServiceAccount")]
    Config(#[from] kube::config::InClusterError),
    /// There is nobody to trust.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The name of the program cannot stand in a header.
    #[error("{0:?} cannot stand in the User-Agent")]
    Name(String),
}

/// A client from the pod's ServiceAccount: its address, its CAs, its token. `name` stands in the API server's audit log.
pub fn connect(name: &str, requests: Requests) -> Result<Client, ConnectError> {
    let config = Config::incluster()?;
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    let https = HttpsConnectorBuilder::new()
        .with_tls_config(trust::tls(config.root_cert_file.clone().unwrap_or_default())?)
        .https_only()
        .enable_http1()
        .wrap_connector(tcp);
    let mut connector = TimeoutConnector::new(https);
    connector.set_connect_timeout(Some(CONNECT));
    connector.set_write_timeout(Some(WRITE));
    connector.set_read_timeout(Some(SILENCE));
    connector.set_reset_reader_on_write(true);
    let http: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let agent = HeaderValue::try_from(format!("{name}/{}", env!("CARGO_PKG_VERSION")));
    let identity = Identity {
        token: config.auth_info.token_file.clone(),
        agent: agent.map_err(|_| ConnectError::Name(name.to_owned()))?,
    };
    let service = Filter::new(config.base_uri_layer().layer(http), move |request| {
        identity.sign(request)
    });
    Ok(Client::new(
        Limits::new(requests).layer(service),
        config.default_namespace.clone(),
    ))
}

/// As whom requests are sent.
struct Identity {
    /// The file with the token: the kubelet renews it, so it is read for each request (it lies in memory).
    token: Option<String>,
    agent: HeaderValue,
}

impl Identity {
    fn sign(&self, mut request: Request<Body>) -> Result<Request<Body>, BoxError> {
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, self.agent.clone());
        if let Some(path) = &self.token {
            let token =
                std::fs::read_to_string(path).map_err(|e| format!("the token {path} cannot be read: {e}"))?;
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(request)
    }
}

/// Counts requests and limits their waits.
#[derive(Clone)]
pub(crate) struct Limits {
    requests: Requests,
    most: Arc<Semaphore>,
}

impl Limits {
    pub(crate) fn new(requests: Requests) -> Self {
        Self {
            requests,
            most: Arc::new(Semaphore::new(MOST_REQUESTS)),
        }
    }
}

impl<S> Layer<S> for Limits {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited {
            inner,
            limits: self.clone(),
        }
    }
}

pub(crate) struct Limited<S> {
    inner: S,
    limits: Limits,
}

impl<S, B> Service<Request<Body>> for Limited<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let method = request.method().clone();
        // A Lease that is not renewed in time costs more than anything that could wait before it.
        let waits = !request.uri().path().contains("/leases/");
        let answer = self.inner.call(request);
        let Limits { requests, most } = self.limits.clone();
        Box::pin(async move {
            let _turn = if waits {
                Some(most.acquire_owned().await?)
            } else {
                None
            };
            let timer = requests
                .duration
                .with_label_values(&[method.as_str()])
                .start_timer();
            let answer = match tokio::time::timeout(HEAD_TIMEOUT, answer).await {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => Err(format!(
                    "the API server did not answer within {} s",
                    HEAD_TIMEOUT.as_secs()
                )
                .into()),
            };
            timer.observe_duration();
            let code = answer.as_ref().map_or("<error>", |a| code(a.status()));
            requests.total.with_label_values(&[code, method.as_str()]).inc();
            answer
        })
    }
}

fn code(status: StatusCode) -> &'static str {
    const KNOWN: &[(u16, &str)] = &[
        (200, "200"),
        (201, "201"),
        (202, "202"),
        (400, "400"),
        (401, "401"),
        (403, "403"),
        (404, "404"),
        (405, "405"),
        (409, "409"),
        (410, "410"),
        (415, "415"),
        (422, "422"),
        (429, "429"),
        (500, "500"),
        (502, "502"),
        (503, "503"),
        (504, "504"),
    ];
    KNOWN
        .iter()
        .find(|(n, _)| *n == status.as_u16())
        .map_or("other", |(_, text)| text)
}

/// The path of the objects of a kind in a namespace.
pub(crate) fn path(resource: &kube::api::ApiResource, namespace: &str) -> ApiRequest {
    use kube::Resource;
    ApiRequest::new(kube::api::DynamicObject::url_path(resource, Some(namespace)))
}

/// Sends a request and reads the answer, with its status: a patch that created says 201. A failure that the API
/// server explains is [`kube::Error::Api`].
pub(crate) async fn send<T: DeserializeOwned>(
    client: &Client,
    request: Result<Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<(StatusCode, T), kube::Error> {
    let request = request.map_err(kube::Error::BuildRequest)?;
    let answer = client.send(request.map(Body::from)).await?;
    let code = answer.status();
    let bytes = answer.into_body().collect_bytes().await?;
    if code.is_success() {
        return serde_json::from_slice(&bytes)
            .map(|value| (code, value))
            .map_err(kube::Error::SerdeError);
    }
    let said: Option<Status> = serde_json::from_slice(&bytes).ok();
    let mut status = said.unwrap_or_else(|| Status::failure(&String::from_utf8_lossy(&bytes), "Unreadable"));
    status.code = code.as_u16();
    Err(kube::Error::Api(status.boxed()))
}

#[cfg(test)]
mod tests {
    use prometheus::Registry;

    use super::*;

    fn limited<S>(inner: S) -> (Limited<S>, Requests) {
        let requests = Requests::new(&Registry::new()).unwrap();
        (Limits::new(requests.clone()).layer(inner), requests)
    }

    fn request() -> Request<Body> {
        Request::get("/api").body(Body::empty()).unwrap()
    }

    #[tokio::test]
    async fn a_renewed_token_is_used_at_once() {
        let file = std::env::temp_dir().join(format!("sampledb-token-{}", std::process::id()));
        let echo = tower::service_fn(|request: Request<Body>| async move {
            let signed = request.headers().get(AUTHORIZATION).cloned();
            let mut answer = Response::new(Body::empty());
            answer.headers_mut().extend(signed.map(|s| (AUTHORIZATION, s)));
            Ok::<_, BoxError>(answer)
        });
        let identity = Identity {
            token: Some(file.display().to_string()),
            agent: HeaderValue::from_static("test/1"),
        };
        let mut service = Filter::new(echo, move |request| identity.sign(request));
        for token in ["first", "second\n"] {
            std::fs::write(&file, token).unwrap();
            let answer = service.call(request()).await.unwrap();
            assert_eq!(
                answer.headers()[AUTHORIZATION],
                format!("Bearer {}", token.trim())
            );
            assert!(answer.headers()[AUTHORIZATION].is_sensitive());
        }
        std::fs::remove_file(&file).unwrap();
        let error = service.call(request()).await.unwrap_err();
        assert!(error.to_string().contains("the token"), "{error}");
    }

    #[tokio::test]
    async fn every_request_is_counted_once_and_never_retried() {
        let (mut service, requests) = limited(tower::service_fn(|_: Request<Body>| async {
            Ok::<_, BoxError>(Response::builder().status(503).body(Body::empty()).unwrap())
        }));
        let answer = service.call(request()).await.unwrap();
        assert_eq!(answer.status(), 503);
        assert_eq!(requests.total.with_label_values(&["503", "GET"]).get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_never_answers_does_not_hang_a_controller() {
        let (mut service, requests) = limited(tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, BoxError>>()
        }));
        let error = service.call(request()).await.unwrap_err();
        assert!(error.to_string().contains("did not answer"), "{error}");
        assert_eq!(requests.total.with_label_values(&["<error>", "GET"]).get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_renewed_while_an_overloaded_api_server_answers_nothing_else() {
        let (mut service, _) = limited(tower::service_fn(|request: Request<Body>| async move {
            if request.uri().path().contains("/leases/") {
                return Ok::<_, BoxError>(Response::new(Body::empty()));
            }
            std::future::pending().await
        }));
        for _ in 0..=MOST_REQUESTS {
            tokio::spawn(service.call(request()));
        }
        tokio::task::yield_now().await;
        let renewal = Request::put("/apis/coordination.k8s.io/v1/namespaces/r/leases/l")
            .body(Body::empty())
            .unwrap();
        let renewed = tokio::time::timeout(std::time::Duration::from_secs(1), service.call(renewal)).await;
        assert!(renewed.unwrap().is_ok());
    }
}

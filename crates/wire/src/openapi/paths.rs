//! The paths of the OpenAPI document, and the responses of each.

use schemars::Schema;
use serde_json::{Map, Value, json};

use super::OpenapiSchemas;
use crate::{
    BatchRequest, BatchResponse, CheckRequest, CheckResponse, ProblemDetails, QuotaExceeded,
    RefundRequest, RefusalMembers,
};

pub(super) fn all(schemas: &mut OpenapiSchemas) -> Value {
    json!({
        "/v1/check": { "post": check(schemas) },
        "/v1/check/batch": { "post": batch(schemas) },
        "/v1/refund": { "post": refund(schemas) },
        "/v1/authz": authz(schemas),
        "/healthz": { "get": health("healthz", "Whether the server is running", None) },
        "/readyz": { "get": health("readyz", "Whether the server takes requests", Some(schemas)) },
        "/metrics": { "get": health("metrics", "Metrics in the Prometheus text format", None) },
        "/openapi.json": { "get": document() },
    })
}

const FOREIGN: &str =
    "The request comes from a page of another site, or its Host is not a name of this server.";

const UNKNOWN_POLICY: &str = "There is no such policy; `policies` lists those that exist, or the \
    first of them if there are many.";

fn check(schemas: &mut OpenapiSchemas) -> Value {
    json!({
        "operationId": "check",
        "tags": ["decisions"],
        "summary": "May this happen now?",
        "description": "Takes units from every limit that applies, or from none. A denial takes \
            nothing, and neither does a cost of 0, which is a peek.",
        "requestBody": body(&schemas.read::<CheckRequest<'_>>()),
        "responses": {
            "200": decided(JSON, "Allowed.", &schemas.written::<CheckResponse<'_>>()),
            "429": denied(schemas),
            "400": refused(schemas, "The body is invalid; `member` names the faulty member."),
            "403": refused(schemas, FOREIGN),
            "404": refused(schemas, UNKNOWN_POLICY),
            "408": refused(schemas, "The body did not arrive in time."),
            "413": refused(schemas, "The body is too large."),
        },
    })
}

fn batch(schemas: &mut OpenapiSchemas) -> Value {
    let answer = content(JSON, &schemas.written::<BatchResponse<'_>>());
    json!({
        "operationId": "checkBatch",
        "tags": ["decisions"],
        "summary": "Many checks in one request",
        "description": "Each check is decided on its own, in this order. The status is 200 \
            whatever the decisions are: a denied check has `allowed: false`, and the result of an \
            invalid check is a problem.",
        "requestBody": body(&schemas.read::<BatchRequest<'_>>()),
        "responses": {
            "200": { "description": "The results, in the order of the checks.", "content": answer },
            "400": refused(schemas, "The body is invalid; `member` names the faulty member."),
            "403": refused(schemas, FOREIGN),
            "408": refused(schemas, "The body did not arrive in time."),
            "413": refused(schemas, "The body is too large."),
        },
    })
}

fn refund(schemas: &mut OpenapiSchemas) -> Value {
    let answer = content(JSON, &schemas.written::<CheckResponse<'_>>());
    json!({
        "operationId": "refund",
        "tags": ["decisions"],
        "summary": "Gives back units that were taken and not used",
        "description": "Off unless the server was started with --allow refund or --allow http:refund.",
        "requestBody": body(&schemas.read::<RefundRequest<'_>>()),
        "responses": {
            "200": { "description": "The limits after the refund.", "content": answer },
            "400": refused(schemas, "The body is invalid; `member` names the faulty member."),
            "403": refused(schemas, "Refunds are off, or a page of another site sent the request."),
            "404": refused(schemas, UNKNOWN_POLICY),
            "408": refused(schemas, "The body did not arrive in time."),
            "413": refused(schemas, "The body is too large."),
            "503": refused(
                schemas,
                "The store did not answer, so the units may not have been given back.",
            ),
        },
    })
}

/// A proxy sends the method of the request that it asks about, so all methods work. Only one is listed:
/// eight operations that do the same would be noise in a generated client.
fn authz(schemas: &mut OpenapiSchemas) -> Value {
    let operation = json!({
        "operationId": "authz",
        "tags": ["proxies"],
        "summary": "May this request pass the proxy?",
        "description": "For the forward authentication of proxies. Every method works. The request is \
            described by X-Forwarded-Method, -Proto, -Host and -Uri, or by X-Original-Method and -URI \
            (or -URL), or it is the request itself, at a path below /v1/authz. The client's \
            address is the address of the peer, unless trusted_proxies contains the peer.",
        "parameters": described_by(),
        "responses": {
            "200": {
                "description": "Allowed.",
                "headers": fields(&["RateLimit-Policy", "RateLimit"]),
            },
            "429": denied(schemas),
            "400": refused(
                schemas,
                "Two header fields contradict each other, or an attribute occurs twice.",
            ),
        },
    });
    json!({ "get": operation })
}

fn described_by() -> Value {
    let header = |name: &str, description: &str| {
        let schema = json!({ "type": "string" });
        json!({ "in": "header", "name": name, "description": description, "schema": schema })
    };
    json!([
        header("X-Forwarded-Method", "The method, as Traefik and Caddy send it."),
        header("X-Forwarded-Host", "The host."),
        header("X-Forwarded-Uri", "The path and the query."),
        header(
            "X-Forwarded-For",
            "The client's address and those of the proxies on the way; the proxy that asks adds the \
             last one.",
        ),
    ])
}

fn health(name: &str, summary: &str, problems: Option<&mut OpenapiSchemas>) -> Value {
    let text = json!({ "text/plain": { "schema": { "type": "string" } } });
    let mut responses = Map::new();
    responses.insert("200".to_owned(), json!({ "description": "Plain text.", "content": text }));
    if let Some(schemas) = problems {
        let stopping = refused(schemas, "The server is about to stop.");
        responses.insert("503".to_owned(), stopping);
    }
    json!({ "operationId": name, "tags": ["health"], "summary": summary, "responses": responses })
}

fn document() -> Value {
    let content = json!({ "application/json": { "schema": { "type": "object" } } });
    json!({
        "operationId": "openapi",
        "tags": ["health"],
        "summary": "This document",
        "responses": { "200": { "description": "OpenAPI 3.1.", "content": content } },
    })
}

fn body(schema: &Schema) -> Value {
    json!({ "required": true, "content": content(JSON, schema) })
}

fn content(kind: &str, schema: &Schema) -> Value {
    let mut content = Map::new();
    content.insert(kind.to_owned(), json!({ "schema": schema }));
    Value::Object(content)
}

fn decided(kind: &str, description: &str, schema: &Schema) -> Value {
    json!({
        "description": description,
        "headers": fields(&["RateLimit-Policy", "RateLimit"]),
        "content": content(kind, schema),
    })
}

fn denied(schemas: &mut OpenapiSchemas) -> Value {
    let schema = schemas.written::<ProblemDetails<'_, QuotaExceeded<'_>>>();
    json!({
        "description": "Denied.",
        "headers": fields(&["RateLimit-Policy", "RateLimit", "Retry-After"]),
        "content": content(PROBLEM, &schema),
    })
}

fn refused(schemas: &mut OpenapiSchemas, description: &str) -> Value {
    let schema = schemas.written::<ProblemDetails<'_, RefusalMembers<'_>>>();
    json!({ "description": description, "content": content(PROBLEM, &schema) })
}

fn fields(names: &[&str]) -> Value {
    let field = |name: &&str| {
        let reference = json!({ "$ref": format!("#/components/headers/{name}") });
        ((*name).to_owned(), reference)
    };
    Value::Object(names.iter().map(field).collect())
}

const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

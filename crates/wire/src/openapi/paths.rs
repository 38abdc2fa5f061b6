//! The paths, and what each returns.

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
        "/healthz": { "get": health("healthz", "Whether the server runs", None) },
        "/readyz": { "get": health("readyz", "Whether it takes requests", Some(schemas)) },
        "/metrics": { "get": health("metrics", "Metrics, as Prometheus reads them", None) },
        "/openapi.json": { "get": document() },
    })
}

const FOREIGN: &str = "A page of another site has sent it, or it came to a name that is not ours.";

fn check(schemas: &mut OpenapiSchemas) -> Value {
    json!({
        "operationId": "check",
        "tags": ["decisions"],
        "summary": "May this happen now?",
        "description": "Takes units from every limit that applies, or from none. A denial takes \
            nothing, and neither does a cost of 0, which only looks.",
        "requestBody": body(&schemas.read::<CheckRequest<'_>>()),
        "responses": {
            "200": decided(JSON, "It may.", &schemas.written::<CheckResponse<'_>>()),
            "429": denied(schemas),
            "400": refused(schemas, "The body makes no sense; `member` says where."),
            "403": refused(schemas, FOREIGN),
            "404": refused(schemas, "There is no such policy; `policies` says which there are."),
            "408": refused(schemas, "The body took too long."),
            "413": refused(schemas, "The body is too large."),
        },
    })
}

fn batch(schemas: &mut OpenapiSchemas) -> Value {
    let answer = content(JSON, &schemas.written::<BatchResponse<'_>>());
    json!({
        "operationId": "checkBatch",
        "tags": ["decisions"],
        "summary": "Many checks at once",
        "description": "Each is decided for itself, in this order. The answer is 200 whatever was \
            decided: a check that was denied says so, and one that makes no sense is answered \
            with a problem of its own.",
        "requestBody": body(&schemas.read::<BatchRequest<'_>>()),
        "responses": {
            "200": { "description": "The answers, in the order of the checks.", "content": answer },
            "400": refused(schemas, "The body makes no sense; `member` says where."),
            "403": refused(schemas, FOREIGN),
            "408": refused(schemas, "The body took too long."),
            "413": refused(schemas, "The body is too large."),
        },
    })
}

fn refund(schemas: &mut OpenapiSchemas) -> Value {
    let answer = content(JSON, &schemas.written::<CheckResponse<'_>>());
    json!({
        "operationId": "refund",
        "tags": ["decisions"],
        "summary": "Gives back what was taken and not used",
        "description": "Off unless the server was started with --allow http:refund.",
        "requestBody": body(&schemas.read::<RefundRequest<'_>>()),
        "responses": {
            "200": { "description": "How the limits stand now.", "content": answer },
            "400": refused(schemas, "The body makes no sense; `member` says where."),
            "403": refused(schemas, "Refunds are off, or a page of another site has sent it."),
            "404": refused(schemas, "There is no such policy; `policies` says which there are."),
            "408": refused(schemas, "The body took too long."),
            "413": refused(schemas, "The body is too large."),
            "503": refused(schemas, "The store did not answer: perhaps nothing was given back."),
        },
    })
}

/// Proxies ask with the method of the request that they ask about, so all methods work.
fn authz(schemas: &mut OpenapiSchemas) -> Value {
    let operation = |method: &str, schemas: &mut OpenapiSchemas| {
        json!({
            "operationId": format!("authz-{method}"),
            "tags": ["proxies"],
            "summary": "May this request pass the proxy?",
            "description": "For the forward-auth of proxies. The request is described by \
                X-Forwarded-Method, -Proto, -Host and -Uri, or by X-Original-Method and -URI (or \
                -URL), or it is the request itself, at a path below /v1/authz. The client's \
                address is the caller's, unless trusted_proxies has the caller.",
            "parameters": described_by(),
            "responses": {
                "200": {
                    "description": "It may.",
                    "headers": fields(&["RateLimit-Policy", "RateLimit"]),
                },
                "429": denied(schemas),
                "400": refused(
                    schemas,
                    "Two fields contradict each other, or an attribute is there twice.",
                ),
            },
        })
    };
    let methods = ["get", "head", "post", "put", "patch", "delete", "options", "trace"];
    let operations = methods.map(|method| (method.to_owned(), operation(method, schemas)));
    Value::Object(Map::from_iter(operations))
}

fn described_by() -> Value {
    let header = |name: &str, description: &str| {
        let schema = json!({ "type": "string" });
        json!({ "in": "header", "name": name, "description": description, "schema": schema })
    };
    json!([
        header("X-Forwarded-Method", "The method, as Traefik and Caddy say it."),
        header("X-Forwarded-Host", "The host."),
        header("X-Forwarded-Uri", "The path and the query."),
        header("X-Forwarded-For", "The addresses that it came from, the last one by the proxy."),
    ])
}

fn health(name: &str, summary: &str, problems: Option<&mut OpenapiSchemas>) -> Value {
    let text = json!({ "text/plain": { "schema": { "type": "string" } } });
    let mut responses = Map::new();
    responses.insert("200".to_owned(), json!({ "description": "In text.", "content": text }));
    if let Some(schemas) = problems {
        let stopping = refused(schemas, "It is about to stop.");
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
        "description": "It may not.",
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

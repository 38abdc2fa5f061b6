// Shows openapi.json, and sends requests to the server that the page came from. Addresses are relative: the
// same files are also a page of the documentation, where no server answers.

import { curl, fieldsIn } from './curl.js';

const byId = (id) => document.getElementById(id);

/** An element with text or other elements in it. Text is never parsed as HTML. */
function make(name, ...children) {
  const element = document.createElement(name);
  element.append(...children);
  return element;
}

function classed(element, name) {
  element.className = name;
  return element;
}

/** A description, with the words in backticks as code. */
function prose(text) {
  return (text ?? '').split('`').map((part, index) => (index % 2 ? make('code', part) : part));
}

// --- Try it

/** Bodies that a policy of this server applies to. */
const examples = (check) => ({
  '/v1/check': { ...check, cost: 1 },
  '/v1/check/batch': { checks: [check, { ...check, cost: 2 }] },
  '/v1/refund': { ...check, amount: 1 },
});
let EXAMPLES = examples({ policy: 'demo', key: 'alice' });
const SHOWN = ['ratelimit-policy', 'ratelimit', 'retry-after', 'x-ratelimit-limit',
  'x-ratelimit-remaining', 'x-ratelimit-reset', 'content-type'];

/** A proxy's question. */
const QUESTION = 'X-Forwarded-Method: GET\nX-Forwarded-Host: example.org\nX-Forwarded-Uri: /login';
/** The operations of the document, by their names in the list. */
const operations = new Map();

/** The operation that is chosen: its method, its path, and what can be filled in. */
const chosen = () => operations.get(byId('path').value)
  ?? { method: 'POST', path: '/v1/check', hasBody: true, hasFields: false };

function showExample() {
  const { path, hasBody, hasFields } = chosen();
  byId('body').value = hasBody ? JSON.stringify(EXAMPLES[path] ?? {}, null, 2) : '';
  byId('head').value = hasFields ? QUESTION : '';
  byId('body-label').hidden = !hasBody;
  byId('head-label').hidden = !hasFields;
  showCurl();
}

/** The request in the form. */
function request() {
  const { method, path, hasBody, hasFields } = chosen();
  const url = new URL(path.slice(1), document.baseURI).href;
  const fields = hasFields ? fieldsIn(byId('head').value) : [];
  return { method, url, fields, body: hasBody ? byId('body').value : '' };
}

function showCurl() {
  let { body, ...rest } = request();
  // On one line, if it is JSON.
  try { body = body && JSON.stringify(JSON.parse(body)); } catch { /* as it is */ }
  byId('curl').textContent = curl({ ...rest, body });
}

async function copyCurl() {
  const shown = byId('curl');
  try {
    await navigator.clipboard.writeText(shown.textContent);
    byId('copy').textContent = 'Copied';
    setTimeout(() => { byId('copy').textContent = 'Copy as curl'; }, 1500);
  } catch {
    // Pages without TLS may not write to the clipboard: select it, to be copied by hand.
    getSelection().selectAllChildren(shown);
  }
}

/** Lists every operation of the document. */
function offer(spec) {
  operations.clear();
  const options = inOrder(spec).flatMap(([path, item]) => Object.entries(item).map(([name, one]) => {
    const method = name.toUpperCase();
    const option = make('option', `${method} ${path}`);
    const [hasBody, hasFields] = [Boolean(one.requestBody), Boolean(one.parameters)];
    operations.set(option.value, { method, path, hasBody, hasFields });
    return option;
  }));
  byId('path').replaceChildren(...options);
  showExample();
}

/** One sentence about a decision. */
function verdict(answer) {
  if (answer === null || typeof answer !== 'object') return '';
  if (Array.isArray(answer.results)) {
    const allowed = answer.results.filter((one) => one.allowed).length;
    return `${allowed} of ${answer.results.length} allowed`;
  }
  if (answer.allowed === undefined) return answer.detail ?? '';
  const left = answer.remaining === null ? '' : `, ${answer.remaining} of ${answer.limit} left`;
  return answer.reason.replaceAll('_', ' ') + left;
}

async function send(event) {
  event.preventDefault();
  const [answer, fields] = [byId('answer'), byId('fields')];
  fields.replaceChildren();
  answer.hidden = false;
  try {
    const { method, url, fields: sent, body } = request();
    const headers = new Headers(sent);
    if (body) headers.set('content-type', 'application/json');
    const response = await fetch(url, { method, headers, body: body || undefined });
    const text = await response.text();
    let parsed = null;
    try { parsed = JSON.parse(text); } catch { /* shown as it is */ }
    classed(answer, response.ok ? 'good' : 'bad');
    byId('status').textContent = `${response.status} ${response.statusText}`;
    byId('verdict').textContent = verdict(parsed);
    for (const name of SHOWN) {
      const value = response.headers.get(name);
      if (value !== null) fields.append(make('dt', name), make('dd', value));
    }
    byId('text').textContent = parsed === null ? text : JSON.stringify(parsed, null, 2);
  } catch (error) {
    classed(answer, 'bad');
    byId('status').textContent = 'No response';
    byId('verdict').textContent = String(error);
    byId('text').textContent = '';
  }
}

// --- The document

const TAGS = ['decisions', 'proxies', 'health'];
const nameOf = (reference) => reference.split('/').pop();

/** The type of a schema in a few words. */
function typeOf(schema) {
  if (schema === true || schema === undefined) return 'anything';
  if (schema.$ref) return nameOf(schema.$ref);
  if (schema.enum) return schema.enum.join(' | ');
  const either = schema.anyOf ?? schema.oneOf;
  if (either && !schema.properties) return either.map(typeOf).join(' or ');
  if (schema.type === 'array') return `list of ${typeOf(schema.items)}`;
  return [schema.type].flat().join(' or ');
}

/** The same, as a link if the schema has a name. */
function linkTo(schema) {
  if (!schema?.$ref) return typeOf(schema);
  const link = make('a', nameOf(schema.$ref));
  link.href = `#${nameOf(schema.$ref)}`;
  return link;
}

function members(schema) {
  if (schema.oneOf) {
    const forms = schema.oneOf.flatMap((form, index) => [index ? ' or ' : 'Either ', linkTo(form)]);
    return [make('p', ...forms)];
  }
  const rows = Object.entries(schema.properties ?? {}).map(([name, member]) => {
    const kind = make('i', ' ', linkTo(member));
    const about = make('div', ...prose(member.description));
    return classed(make('div', make('div', make('b', name), kind), about), 'member');
  });
  if (rows.length) return rows;
  return [make('p', make('i', typeOf(schema)))];
}

function answerOf(status, response) {
  const kind = make('i', ' ');
  for (const one of Object.values(response.content ?? {})) kind.append(linkTo(one.schema));
  const about = make('div', ...prose(response.description));
  return classed(make('div', make('div', make('b', status), kind), about), 'member');
}

function operation(path, methods, one) {
  const inside = classed(make('div'), 'inside');
  if (one.description) inside.append(make('p', ...prose(one.description)));
  for (const body of Object.values(one.requestBody?.content ?? {})) {
    inside.append(make('p', 'Body: ', make('code', linkTo(body.schema))));
  }
  if (one.parameters) {
    inside.append(make('h3', 'Parameters'));
    for (const field of one.parameters) {
      const about = make('div', ...prose(field.description));
      inside.append(classed(make('div', make('div', make('b', field.name)), about), 'member'));
    }
  }
  inside.append(make('h3', 'Responses'));
  for (const [status, response] of Object.entries(one.responses)) {
    inside.append(answerOf(status, response));
  }
  const title = make('code', `${methods} ${path}`);
  return make('details', make('summary', title, ' ', make('span', one.summary)), inside);
}

/** The paths, those for applications first. */
function inOrder(spec) {
  const rank = (item) => TAGS.indexOf(Object.values(item)[0].tags[0]);
  return Object.entries(spec.paths).sort((a, b) => rank(a[1]) - rank(b[1]));
}

function show(spec) {
  byId('version').textContent = spec.info.version;
  offer(spec);
  const paths = inOrder(spec).map(([path, item]) => {
    const all = Object.entries(item);
    return operation(path, all.map(([method]) => method.toUpperCase()).join(', '), all[0][1]);
  });
  byId('paths').replaceChildren(...paths);
  const bodies = Object.entries(spec.components.schemas).map(([name, schema]) => {
    const inside = classed(make('div', make('p', ...prose(schema.description))), 'inside');
    inside.append(...members(schema));
    const details = make('details', make('summary', make('code', name)), inside);
    details.id = name;
    return details;
  });
  byId('bodies').replaceChildren(...bodies);
  openLinked();
}

/** Opens the section that the URL's fragment names. */
function openLinked() {
  const linked = byId(decodeURIComponent(location.hash.slice(1)));
  if (linked instanceof HTMLDetailsElement) {
    linked.open = true;
    linked.scrollIntoView();
  }
}

byId('path').addEventListener('change', showExample);
byId('form').addEventListener('submit', send);
byId('form').addEventListener('input', showCurl);
byId('copy').addEventListener('click', copyCurl);
addEventListener('hashchange', openLinked);
fetch('docs/example.json').then((response) => response.json()).then(({ check }) => {
  EXAMPLES = examples(check);
}, () => {
  // No server answers here.
  byId('try').hidden = true;
}).finally(showExample);
fetch('openapi.json').then((response) => response.json()).then(show, (error) => {
  byId('paths').textContent = `openapi.json could not be read: ${error}`;
});

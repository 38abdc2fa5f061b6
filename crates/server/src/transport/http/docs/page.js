// Shows openapi.json, and sends requests to the server that the page came from.

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

function showExample() {
  byId('body').value = JSON.stringify(EXAMPLES[byId('path').value], null, 2);
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
    const headers = { 'content-type': 'application/json' };
    const body = byId('body').value;
    const response = await fetch(byId('path').value, { method: 'POST', headers, body });
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

function show(spec) {
  byId('version').textContent = spec.info.version;
  const rank = (item) => TAGS.indexOf(Object.values(item)[0].tags[0]);
  const sorted = Object.entries(spec.paths).sort((a, b) => rank(a[1]) - rank(b[1]));
  const paths = sorted.map(([path, item]) => {
    const all = Object.entries(item);
    // If all methods do the same, list the path once.
    const methods = all.length > 2 ? 'any' : all.map(([method]) => method.toUpperCase()).join(', ');
    return operation(path, methods, all[0][1]);
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
addEventListener('hashchange', openLinked);
fetch('/docs/example.json').then((response) => response.json()).then(({ check }) => {
  EXAMPLES = examples(check);
}).finally(showExample);
fetch('/openapi.json').then((response) => response.json()).then(show, (error) => {
  byId('paths').textContent = `openapi.json could not be read: ${error}`;
});

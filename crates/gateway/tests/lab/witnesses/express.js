// Express with the middleware that most applications add: cookies, and methods in a field.
const express = require('express');
const cookies = require('cookie-parser');
const override = require('method-override');

const app = express();
app.set('query parser', 'extended'); // as in version 4
app.use(cookies(), override());

function bearer(field) { // as passport-http-bearer does
  const parts = (field ?? '').split(' ');
  return parts.length === 2 && /^Bearer$/i.test(parts[0]) ? parts[1] : null;
}

// A list of one is its one value, wherever JavaScript makes a text of it.
const text = (value) => (value === undefined ? null : String(value));

const serve = (name) => (request, response) => response.json({
  route: `${name} ${JSON.stringify(request.params)}`,
  method: request.method,
  key: request.get('x-api-key') ?? null,
  bearer: bearer(request.get('authorization')),
  user: text(request.query.user),
  session: text(request.cookies.sid),
  host: request.hostname ?? null,
});

for (const [path, name] of [
  ['/login', '/login'], ['/v1/mail\\:send', '/v1/mail:send'], ['/users/@me', '/users/@me'],
  ['/users/:id', '/users/{id}'], ['/admin/*rest', '/admin/*'],
]) app.all(path, serve(name));

app.use((request, response) => response.status(404).end());
app.use((error, request, response, next) => response.status(error.status ?? 500).end());
app.listen(Number(process.argv[2]), '127.0.0.1');

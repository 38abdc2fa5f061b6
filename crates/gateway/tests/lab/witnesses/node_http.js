// Node's own server, with the router that its documentation shows: a URL object, then a decoded path.
const http = require('node:http');
const cookie = require('cookie');

const ROUTES = ['/login', '/v1/mail:send', '/users/@me'];

function route(path) {
  if (ROUTES.includes(path)) return path;
  const [, place, rest] = /^\/(users|admin)\/(.+)$/.exec(path) ?? [];
  if (place === 'users' && !rest.includes('/')) return `/users/{id} ${rest}`;
  return place === 'admin' ? `/admin/* ${rest}` : null;
}

function bearer(field) {
  const [scheme, token, ...more] = (field ?? '').split(' ');
  return /^bearer$/i.test(scheme) && token && more.length === 0 ? token : null;
}

function describe(request) {
  const url = new URL(request.url, `http://${request.headers.host ?? 'none'}`);
  return {
    route: route(decodeURIComponent(url.pathname)),
    method: request.method,
    key: request.headers['x-api-key'] ?? null,
    bearer: bearer(request.headers.authorization),
    user: url.searchParams.get('user'),
    session: cookie.parse(request.headers.cookie ?? '').sid ?? null,
    host: url.hostname,
  };
}

const server = http.createServer((request, response) => {
  request.resume().on('end', () => {
    // Trailers count as fields to whoever merges them.
    Object.assign(request.headers, request.trailers);
    try {
      response.end(JSON.stringify(describe(request)));
    } catch (error) {
      response.writeHead(400).end(String(error));
    }
  });
});
server.listen(Number(process.argv[2]), '127.0.0.1');

// Writes a request as a command for a shell.

/** A word of a shell: in single quotes, unless it is plain. */
export function quoted(text) {
  if (/^[\w./:=@%+,-]+$/.test(text)) return text;
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The command that sends this request. */
export function curl({ method, url, fields = [], body = '' }) {
  const words = ['curl', '-i', quoted(url)];
  if (method !== (body ? 'POST' : 'GET')) words.push('-X', method);
  for (const [name, value] of fields) words.push('-H', quoted(`${name}: ${value}`));
  if (body) words.push('-H', quoted('content-type: application/json'), '-d', quoted(body));
  return words.join(' ');
}

/** Lines such as `X-Forwarded-Uri: /login`, as pairs. Other lines are left out. */
export function fieldsIn(text) {
  const pairs = text.split('\n').map((line) => line.split(/:\s*(.*)/s));
  return pairs.filter(([name, value]) => /^[\w-]+$/.test(name.trim()) && value)
    .map(([name, value]) => [name.trim(), value.trim()]);
}

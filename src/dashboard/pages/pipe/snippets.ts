/** How to send a record to a pipe, to be copied: with its real address, and a place for the key. Pure. */

const sample = '{"event": "signup", "user_id": 42}'
const keyPlace = 'YOUR_API_KEY'

export interface Snippet {
  label: string
  text: string
}

export function snippets(url: string, needsKey: boolean): Snippet[] {
  return [
    { label: 'curl', text: curl(url, needsKey) },
    { label: 'JavaScript (fetch)', text: fetchCall(url, needsKey) },
    { label: 'HTML (browser)', text: html(url, needsKey) },
  ]
}

function curl(url: string, needsKey: boolean): string {
  const who = needsKey ? `-H 'Authorization: Bearer ${keyPlace}'` : `-H 'Origin: https://YOUR_SITE'`
  return `curl ${url} \\\n  ${who} \\\n  -H 'Content-Type: application/json' \\\n  -d '${sample}'`
}

function fetchCall(url: string, needsKey: boolean): string {
  const key = needsKey ? `\n    Authorization: 'Bearer ${keyPlace}',` : ''
  return `await fetch('${url}', {
  method: 'POST',
  headers: {${key}
    'Content-Type': 'application/json',
  },
  body: JSON.stringify({ event: 'signup', user_id: 42 }),
})`
}

function html(url: string, needsKey: boolean): string {
  const key = needsKey
    ? `\n      // Everybody who opens the page can read this key.\n      Authorization: 'Bearer ${keyPlace}',`
    : ''
  return `<script>
  fetch('${url}', {
    method: 'POST',
    keepalive: true,
    headers: {${key}
      'Content-Type': 'application/json',
    },
    body: JSON.stringify({ event: 'page_view', path: location.pathname }),
  })
</script>`
}

/**
 * Examples for sending a record to a pipe, ready to copy: with the real address, a placeholder for the key, and a
 * record that matches the mapped columns of its tables. Pure.
 */
import type { ColumnMapping, Destination } from '../../contract/destination.ts'
import { quoted } from './cli-twin.ts'

export type Sample = Readonly<Record<string, unknown>>

/** Used if no column is mapped. */
const anyRecord: Sample = { event: 'signup', user_id: 42 }
/** Used if no key was created for the snippet. */
export const keyPlace = 'YOUR_API_KEY'

export interface Snippet {
  label: string
  text: string
  /** The guide with details. `name` is its file in docs/ without the extension. */
  guide: { name: string; title: string }
}

export const sending = { name: 'ingest', title: 'Sending records' }
const fromPages = { name: 'browser', title: 'Records from web pages' }

/** `key`: null if the pipe needs none. */
export function snippets(url: string, key: string | null, record: Sample): Snippet[] {
  return [
    { label: 'curl', text: curl(url, key, record), guide: sending },
    { label: 'JavaScript (fetch)', text: fetchCall(url, key, record), guide: sending },
    { label: 'HTML (browser)', text: html(url, key, record), guide: fromPages },
  ]
}

/** `now` is used for keys that look like a time. Keys that the daemon adds are left out. */
export function sampleRecord(
  destinations: readonly Pick<Destination, 'columns'>[],
  enriched: readonly string[],
  now: Date,
): Sample {
  const columns = destinations.flatMap((one) => one.columns ?? [])
  const keys = columns.flatMap((column): [string, unknown][] => {
    // The daemon provides the value of a column that has a role but no key.
    const key = column.source_field ?? (column.semantic_role === null ? column.column_name : null)
    return key === null || enriched.includes(key) ? [] : [[key, sampleValue(key, column.column_type, now)]]
  })
  return keys.length === 0 ? anyRecord : Object.fromEntries(keys)
}

function sampleValue(key: string, type: ColumnMapping['column_type'], now: Date): unknown {
  if (type === 'string') return /(^|_)(ts|at|time|date|day)$/i.test(key) ? now.toISOString() : 'text'
  return { number: 1, boolean: true, object: {}, array: [], null: null }[type]
}

function curl(url: string, key: string | null, record: Sample): string {
  const who = key === null ? `-H 'Origin: https://YOUR_SITE'` : `-H 'Authorization: Bearer ${key}'`
  return `curl ${url} \\\n  ${who} \\\n  -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(record))}`
}

function fetchCall(url: string, key: string | null, record: Sample): string {
  const header = key === null ? '' : `\n    Authorization: 'Bearer ${key}',`
  return `await fetch('${url}', {
  method: 'POST',
  headers: {${header}
    'Content-Type': 'application/json',
  },
  body: JSON.stringify(${JSON.stringify(record)}),
})`
}

/** Uses the script that the daemon serves next to ingest. */
function html(url: string, key: string | null, record: Sample): string {
  const options =
    key === null ? '' : `, {\n    // Everyone who opens the page can read this key.\n    key: '${key}',\n  }`
  return `<script src="${new URL('/v1/pipectl.js', url)}"></script>
<script>
  const records = pipectl('${url}'${options})
  records.send(${inScript(record)})
</script>`
}

/** Escapes the record, so that no key of it can end the element. */
function inScript(record: Sample): string {
  return JSON.stringify(record).replaceAll('<', '\\u003c')
}

/**
 * The programs of examples/send-one as snippets: their address, key and record are replaced by those of a pipe. Each program
 * runs as it is, with the address and the key from its environment. Pure.
 */
import type { Sample } from './snippets.ts'

interface Syntax {
  label: string
  /** How the program reads the address and the key, and the record that it sends, word for word. */
  address: string
  key: string
  record: string
  /** An import that only the environment needs. */
  unused?: string
  text: (text: string) => string
  literal: (value: unknown) => string
}

/** A text in double quotes, in which the escapes of JSON mean the same. */
const inDoubleQuotes = (text: string) => JSON.stringify(text)
const inSingleQuotes = (text: string) => `'${text.replaceAll(/[\\']/g, '\\$&')}'`

const entries = (
  record: object,
  separator: string,
  quoted: (key: string) => string,
  literal: Syntax['literal'],
) =>
  Object.entries(record)
    .map(([key, value]) => `${quoted(key)}${separator}${literal(value)}`)
    .join(', ')

/** By the extension of the file. */
export const programs = {
  mjs: {
    label: 'Node.js',
    address: 'process.env.PIPECTL_INGEST_URL',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a template of the program
    key: '`Bearer ${process.env.PIPECTL_API_KEY}`',
    record: "{ event: 'signup', user_id: 42 }",
    text: inSingleQuotes,
    literal: (value) => JSON.stringify(value),
  },
  py: {
    label: 'Python',
    address: 'os.environ["PIPECTL_INGEST_URL"]',
    key: `f"Bearer {os.environ['PIPECTL_API_KEY']}"`,
    record: '{"event": "signup", "user_id": 42}',
    unused: 'import os\n',
    text: inDoubleQuotes,
    literal: pythonLiteral,
  },
  go: {
    label: 'Go',
    address: 'os.Getenv("PIPECTL_INGEST_URL")',
    key: '"Bearer "+os.Getenv("PIPECTL_API_KEY")',
    record: 'map[string]any{"event": "signup", "user_id": 42}',
    unused: '\t"os"\n',
    text: inDoubleQuotes,
    literal: goLiteral,
  },
  php: {
    label: 'PHP',
    address: "getenv('PIPECTL_INGEST_URL')",
    key: "'Authorization: Bearer ' . getenv('PIPECTL_API_KEY')",
    record: "['event' => 'signup', 'user_id' => 42]",
    text: inSingleQuotes,
    literal: phpLiteral,
  },
} as const satisfies { [extension: string]: Syntax }

export type Program = keyof typeof programs
export const programNames = Object.keys(programs) as Program[]

/** `source` is the program in examples/send-one. */
export function programSnippet(
  program: Program,
  source: string,
  { url, key, record }: { url: string; key: string; record: Sample },
): string {
  const syntax: Syntax = programs[program]
  const header = syntax.key.includes('Authorization') ? `Authorization: Bearer ${key}` : `Bearer ${key}`
  return source
    .replace(syntax.unused ?? '', '')
    .replace(syntax.address, () => syntax.text(url))
    .replace(syntax.key, () => syntax.text(header))
    .replace(syntax.record, () => syntax.literal(record))
}

function pythonLiteral(value: unknown): string {
  if (value === null) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (Array.isArray(value)) return `[${value.map(pythonLiteral).join(', ')}]`
  if (typeof value === 'object') return `{${entries(value, ': ', inDoubleQuotes, pythonLiteral)}}`
  return JSON.stringify(value)
}

function goLiteral(value: unknown): string {
  if (value === null) return 'nil'
  if (Array.isArray(value)) return `[]any{${value.map(goLiteral).join(', ')}}`
  if (typeof value === 'object') return `map[string]any{${entries(value, ': ', inDoubleQuotes, goLiteral)}}`
  return JSON.stringify(value)
}

/** An empty list would be the same as an empty object. */
function phpLiteral(value: unknown): string {
  if (typeof value === 'string') return inSingleQuotes(value)
  if (Array.isArray(value)) return `[${value.map(phpLiteral).join(', ')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Object.keys(value).length === 0) return 'new stdClass()'
  return `[${entries(value, ' => ', inSingleQuotes, phpLiteral)}]`
}

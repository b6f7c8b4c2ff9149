/** A built file in memory with its `.br` and `.gz` variants. Browsers receive one that they accept. */
import { existsSync, readFileSync } from 'node:fs'

export type Encoding = 'br' | 'gzip'
/** The better compression first. */
const suffixes: readonly (readonly [suffix: string, encoding: Encoding])[] = [
  ['.br', 'br'],
  ['.gz', 'gzip'],
]

export interface StoredFile {
  plain: Buffer
  encoded: ReadonlyMap<Encoding, Buffer>
}

export function readStoredFile(file: string): StoredFile {
  const encoded = new Map<Encoding, Buffer>()
  for (const [suffix, encoding] of suffixes) {
    if (existsSync(`${file}${suffix}`)) encoded.set(encoding, readFileSync(`${file}${suffix}`))
  }
  return { plain: readFileSync(file), encoded }
}

/**
 * `encoding`: null for the file without compression. `body` is a copy: with ingest threads, its memory is transferred
 * to the thread that sends it.
 */
export function storedBody(
  { plain, encoded }: StoredFile,
  accepted: string,
): { encoding: Encoding | null; body: Buffer } {
  for (const [encoding, body] of encoded) {
    if (accepts(accepted, encoding)) return { encoding, body: Buffer.from(body) }
  }
  return { encoding: null, body: Buffer.from(plain) }
}

/** `Accept-Encoding: gzip, br;q=0` accepts only gzip. */
function accepts(header: string, encoding: Encoding): boolean {
  return header.split(',').some((part) => {
    const [name = '', ...parameters] = part.split(';').map((one) => one.trim().toLowerCase())
    return name === encoding && !parameters.some((one) => /^q=0(\.0*)?$/.test(one))
  })
}

/**
 * Whether `If-None-Match: "a", W/"b"`, or `*`, contains this tag. Weak tags match, because a proxy that compresses
 * weakens them.
 */
export function isKnownTag(tag: string, header: string | undefined): boolean {
  if (header === undefined) return false
  return header.split(',').some((one) => ['*', tag].includes(one.trim().replace(/^W\//, '')))
}

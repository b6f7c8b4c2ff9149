/**
 * CORS headers of the ingest path (spec "OPTIONS", contract "Ingest"). They stand on errors too, so that a page can read
 * why it was refused. `Vary: Origin` stands always: the answer depends on Origin even where none was sent.
 */
import type { Header } from './reply.ts'

const exposed = 'Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset'
const maxAgeSeconds = '7200'

const withoutOrigin: readonly Header[] = [['Vary', 'Origin']]

/** `allowOrigin` is the request's own Origin, judged; never `*`. */
export function corsHeaders(allowOrigin: string | null): readonly Header[] {
  if (allowOrigin === null) return withoutOrigin
  return [
    ['Vary', 'Origin'],
    ['Access-Control-Allow-Origin', allowOrigin],
    ['Access-Control-Expose-Headers', exposed],
    ['Access-Control-Max-Age', maxAgeSeconds],
  ]
}

export function preflightHeaders(allowOrigin: string | null, keyRequired: boolean): readonly Header[] {
  if (allowOrigin === null) return withoutOrigin
  const headers = ['Content-Type', 'Content-Encoding', 'Idempotency-Key']
  if (keyRequired) headers.push('Authorization')
  return [
    ...corsHeaders(allowOrigin),
    ['Access-Control-Allow-Methods', 'POST, GET, OPTIONS'],
    ['Access-Control-Allow-Headers', headers.join(', ')],
  ]
}

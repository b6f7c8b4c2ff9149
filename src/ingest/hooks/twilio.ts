/**
 * Twilio signs the address and the fields of the form, not the body (https://www.twilio.com/docs/usage/security):
 *
 *   form   https://…/v1/hooks/…?query + each name and value, sorted by name, without separators
 *   other  https://…/v1/hooks/…?query&bodySHA256=…, the hash of the body
 */

import { createHash } from 'node:crypto'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { hookBodyForm } from './body.ts'
import { formFields } from './form.ts'
import type { Accepted, HookRequest, Refused, SourceOf } from './request.ts'
import { deliveryId, isSameSecret, refused, required, signatureProblem } from './signature.ts'

export function verifyTwilio(
  { secrets, settings }: SourceOf<'twilio'>,
  request: HookRequest,
): Accepted | Refused {
  const signature = required(request, 'x-twilio-signature')
  if (typeof signature !== 'string') return signature
  if (request.query.length > resourceLimits.hookHeaderCharacters) return refused('malformed')
  const fields = signedFields(request)
  if (typeof fields !== 'string') return fields
  for (const url of signedUrls(settings.url, request.query)) {
    const problem = signatureProblem({
      algorithm: 'sha1',
      encoding: 'base64',
      keys: secrets,
      parts: [url, fields],
      signatures: [signature],
    })
    if (problem === null)
      return { ok: true, deliveryId: deliveryId(request.headers('i-twilio-idempotency-token')) }
  }
  return refused('wrong_signature')
}

/** The query is that of the request, which has `bodySHA256`. Twilio signs some URLs with the default port and others without. */
function signedUrls(configured: string, query: string): string[] {
  const base = configured.replace(/[?#].*$/s, '')
  const [, origin = '', port, path = ''] =
    /^(https?:\/\/[^/:]+|https?:\/\/[^/]*\[[^\]]*\])(:\d+)?(.*)$/s.exec(base) ?? []
  const rest = query === '' ? path : `${path}?${query}`
  if (origin === '') return [query === '' ? base : `${base}?${query}`]
  const otherPort = origin.startsWith('https:') ? ':443' : ':80'
  return [`${origin}${port ?? ''}${rest}`, `${origin}${port === undefined ? otherPort : ''}${rest}`]
}

/** The text after the URL; or the reason why the body does not belong to the signature. */
function signedFields({ query, headers, body }: HookRequest): string | Refused {
  const bodyHash = new URLSearchParams(query).get('bodySHA256')
  if (bodyHash !== null) {
    const hash = createHash('sha256').update(body).digest('hex')
    return isSameSecret(bodyHash.toLowerCase(), hash) ? '' : refused('wrong_signature')
  }
  if (body.length === 0) return ''
  // The fields are read before the sender is known.
  if (body.length > resourceLimits.hookParsedBytes) return refused('malformed')
  const fields = hookBodyForm(headers('content-type') ?? '') === 'form' ? formFields(body) : null
  return fields === null ? refused('malformed') : sortedText(fields)
}

/** By name, then by value. Equal fields count once, as in the libraries of Twilio. */
function sortedText(fields: readonly [string, string][]): string {
  const byName = new Map<string, Set<string>>()
  for (const [name, value] of fields) byName.set(name, (byName.get(name) ?? new Set()).add(value))
  return [...byName.keys()]
    .sort()
    .flatMap((name) => [...byName.get(name)!].sort().map((value) => name + value))
    .join('')
}

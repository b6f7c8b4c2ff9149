/**
 * The body of a webhook as the JSON text that ingest stores.
 *
 *   application/json, …+json, text/plain, none ──▶ as sent
 *   application/x-www-form-urlencoded          ──▶ {"name":"value","twice":["a","b"]}
 *           payload=… alone, of GitHub and Slack ──▶ the JSON inside
 */

import { resourceLimits } from '../../contract/resource-limits.ts'
import type { OpenedSource } from '../../contract/source-words.ts'
import { decoded, formFields } from './form.ts'
import { asBuffer } from './signature.ts'

/** `problem`: a sentence for the caller. JSON is not checked here. */
export type HookBody = { json: Buffer } | { problem: string }

/** Never throws, whatever the body contains. The result can be a view of `body`. */
export function bodyOf(source: OpenedSource, contentType: string, body: Uint8Array): HookBody {
  switch (hookBodyForm(contentType)) {
    case 'json':
      return { json: asBuffer(body) }
    case 'form':
      return formBody(source, asBuffer(body))
    case null:
      return {
        problem: 'Content-Type must be application/json or application/x-www-form-urlencoded, in UTF-8.',
      }
  }
}

/** Providers often send JSON as text/plain (Amazon SNS), or without a type. */
export function hookBodyForm(contentType: string): 'json' | 'form' | null {
  const [type = '', ...parameters] = contentType.split(';', 8).map((part) => part.trim().toLowerCase())
  const charset = parameters.find((one) => one.startsWith('charset='))?.slice('charset='.length)
  if (charset !== undefined && !['utf-8', 'utf8', '"utf-8"'].includes(charset)) return null
  if (type === 'application/x-www-form-urlencoded') return 'form'
  return ['', 'application/json', 'text/plain'].includes(type) || /^application\/[\w.-]+\+json$/.test(type)
    ? 'json'
    : null
}

const payloadField = Buffer.from('payload=')

function formBody({ type }: OpenedSource, body: Buffer): HookBody {
  const hasPayload = type === 'github' || type === 'slack'
  if (hasPayload && body.subarray(0, payloadField.length).equals(payloadField) && !body.includes('&'))
    return { json: decoded(body.subarray(payloadField.length)) }
  const fields = formFields(body)
  if (fields !== null) return { json: Buffer.from(objectOf(fields)) }
  return {
    problem: `A form must be UTF-8, with at most ${resourceLimits.formFields} fields and ${resourceLimits.formBytes} bytes.`,
  }
}

/** A field that was sent several times becomes an array. Every value stays a string. */
function objectOf(fields: readonly [string, string][]): string {
  const values = new Map<string, string[]>()
  for (const [name, value] of fields) {
    const before = values.get(name)
    if (before === undefined) values.set(name, [value])
    else before.push(value)
  }
  // Written member by member: an object would lose `__proto__` and sort names that are numbers.
  const members = [...values].map(
    ([name, all]) => `${JSON.stringify(name)}:${JSON.stringify(all.length === 1 ? all[0] : all)}`,
  )
  return `{${members.join(',')}}`
}

/** Standard Webhooks, as a receiver checks it. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { SinkDelivery } from './http-sink.ts'

/** Whether one of the request's signatures is that of its body by this secret (`whsec_…`). */
export function verifiedSignature({ headers, body }: SinkDelivery, secret: string): boolean {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const signed = Buffer.concat([
    Buffer.from(`${headers['webhook-id']}.${headers['webhook-timestamp']}.`),
    body,
  ])
  const expected = createHmac('sha256', key).update(signed).digest()
  return String(headers['webhook-signature'] ?? '')
    .split(' ')
    .filter((one) => one.startsWith('v1,'))
    .map((one) => Buffer.from(one.slice(3), 'base64'))
    .some((one) => one.length === expected.length && timingSafeEqual(one, expected))
}

/** The schema of the bench, and records that match it: 20 properties, some 500 bytes. */
import type { RecordSchema } from '../src/contract/record-schema.ts'

const variants = 256
const states = ['new', 'paid', 'packed', 'sent', 'returned', 'für Abholung']
const pages = ['/checkout/confirm', '/cart', '/product/4711', '/search?q=winter+jacket', '/account/orders']
const cities = ['Köln', 'Málaga', 'Łódź', 'São Paulo', '東京', 'Reykjavík']

const text = (maxLength: number) => ({ type: 'string', minLength: 1, maxLength })
const amount = { type: 'number', minimum: 0, maximum: 1_000_000 }

export const benchSchema: RecordSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  properties: {
    id: text(40),
    order_id: { type: 'string', format: 'uuid' },
    type: { enum: ['order.placed', 'order.paid', 'order.sent', 'order.returned'] },
    state: { type: 'string', enum: states },
    version: { type: 'integer', minimum: 1 },
    user_id: { type: 'integer', minimum: 1 },
    created_at: { type: 'string', format: 'date-time' },
    updated_at: { type: ['string', 'null'], format: 'date-time' },
    amount,
    tax: amount,
    currency: { type: 'string', minLength: 3, maxLength: 3 },
    is_gift: { type: 'boolean' },
    coupon: { type: ['string', 'null'], maxLength: 20 },
    items: { type: 'integer', minimum: 1, maximum: 1_000 },
    tags: { type: 'array', items: text(30), maxItems: 20 },
    source: { const: 'web' },
    page: { type: 'string', maxLength: 2_000 },
    address: {
      type: 'object',
      properties: {
        city: text(100),
        postal_code: text(12),
        latitude: { type: 'number', minimum: -90, maximum: 90 },
        longitude: { type: 'number', minimum: -180, maximum: 180 },
      },
      required: ['city'],
      additionalProperties: false,
    },
    user_agent: { type: 'string' },
    note: { type: 'string', maxLength: 500 },
  },
  required: ['id', 'order_id', 'type', 'created_at', 'user_id', 'amount', 'currency'],
  additionalProperties: false,
}

/** Everything but the `id`, as JSON text from the second key on. */
const bodies = Array.from({ length: variants }, (_, index) => {
  const pick = <T>(list: readonly T[], step: number): T =>
    list[(index * step + (index >> 3)) % list.length] as T
  const at = new Date(Date.UTC(2026, index % 12, 1 + (index % 28), index % 24, index % 60)).toISOString()
  const record = {
    order_id: `9b2d6c1e-58f4-4a0b-8c3d-${String(index).padStart(12, '0')}`,
    type: pick(['order.placed', 'order.paid', 'order.sent', 'order.returned'], 1),
    state: pick(states, 1),
    version: 1 + (index % 7),
    user_id: 100_000 + index * 37,
    created_at: at,
    updated_at: index % 4 === 0 ? null : at,
    amount: (1999 + index * 113) / 100,
    tax: (380 + index * 21) / 100,
    currency: pick(['EUR', 'USD', 'GBP', 'SEK'], 3),
    is_gift: index % 3 === 0,
    coupon: index % 5 === 0 ? 'SPRING-2026' : null,
    items: 1 + (index % 9),
    tags: ['web', 'app', 'returning', 'gift'].slice(index % 3, 1 + (index % 4)),
    source: 'web',
    page: pick(pages, 1),
    address: {
      city: pick(cities, 1),
      postal_code: String(10_000 + index),
      latitude: (3672 + index) / 100,
      longitude: (-442 + index) / 50,
    },
    user_agent: 'Mozilla/5.0 (X11; Linux x86_64)',
    note: index % 2 === 0 ? 'leave it with the neighbour' : '',
  }
  return JSON.stringify(record).slice(1)
})

/** The record with this number. */
export function schemaRecord(index: number): string {
  return `{"id":"evt-${String(index).padStart(12, '0')}",${bodies[index % variants]}`
}

/** A JSON array of `count` records from `first` on. */
export function schemaRecordArray(first: number, count: number): string {
  return `[${Array.from({ length: count }, (_, index) => schemaRecord(first + index)).join(',')}]`
}

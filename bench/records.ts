/** The records of the bench: 256 different events of a web shop, 300 to 700 bytes, nine keys, no padding. */

const variants = 256
const words =
  'the order was placed by a returning customer who asked for delivery on friday morning and left a note for the courier please ring twice because the bell of the side entrance is broken gift wrapping was chosen with a card that says happy birthday payment went through at the second attempt after the bank had asked for confirmation'.split(
    ' ',
  )
const types = [
  'order.placed',
  'order.paid',
  'cart.changed',
  'page.viewed',
  'search.performed',
  'refund.asked',
]
const currencies = ['EUR', 'USD', 'GBP', 'SEK']
const pages = ['/checkout/confirm', '/cart', '/product/4711', '/search?q=winter+jacket', '/account/orders']
const cities = ['Köln', 'Málaga', 'Łódź', 'São Paulo', '東京', 'Reykjavík']
const tags = ['web', 'app', 'spring-sale', 'returning', 'newsletter', 'gift', 'express', 'b2b']

/** The keys of an event, as column mappings of a destination. */
export const recordColumns = [
  { column_name: 'id', column_type: 'string' },
  { column_name: 'type', column_type: 'string' },
  { column_name: 'user_id', column_type: 'number' },
  { column_name: 'amount', column_type: 'number' },
  { column_name: 'currency', column_type: 'string' },
  { column_name: 'ok', column_type: 'boolean' },
  { column_name: 'tags', column_type: 'array' },
  { column_name: 'context', column_type: 'object' },
  { column_name: 'note', column_type: 'string' },
].map((column) => ({ ...column, source_field: column.column_name }))

/** Everything of an event but its `id`, as JSON text from the second key on. */
const bodies = Array.from({ length: variants }, (_, index) => {
  const pick = <T>(list: readonly T[], step: number): T =>
    list[(index * step + (index >> 3)) % list.length] as T
  const note = Array.from({ length: 12 + (index % 28) }, (_, at) => words[(index * 7 + at) % words.length])
  const event = {
    type: pick(types, 1),
    user_id: 100_000 + index * 37,
    amount: (1999 + index * 113) / 100,
    currency: pick(currencies, 3),
    ok: index % 3 !== 0,
    tags: tags.slice(index % 5, (index % 5) + 1 + (index % 3)),
    context: {
      page: pick(pages, 1),
      referrer: index % 4 === 0 ? null : `https://shop.example${pick(pages, 2)}`,
      viewport: { width: 360 + (index % 9) * 120, height: 640 + (index % 5) * 130 },
      place: { city: pick(cities, 1), latitude: 36.72 + index / 100, longitude: -4.42 + index / 50 },
    },
    note: note.join(' '),
  }
  return JSON.stringify(event).slice(1)
})

/** The event with this number; its text differs from the 255 before it in more than the number. */
export function record(index: number): string {
  return `{"id":"evt-${String(index).padStart(12, '0')}",${bodies[index % variants]}`
}

/** A JSON array of `count` records from `first` on. */
export function recordArray(first: number, count: number): string {
  return `[${Array.from({ length: count }, (_, index) => record(first + index)).join(',')}]`
}

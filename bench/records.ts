/** The records of the bench: about 500 bytes, nine keys, as a web shop's events look. */
export function record(index: number): string {
  const base = {
    id: `evt-${String(index).padStart(12, '0')}`,
    type: 'order.placed',
    user_id: 100000 + (index % 50_000),
    amount: (1999 + (index % 100) * 100) / 100,
    currency: 'EUR',
    ok: index % 2 === 0,
    tags: ['web', 'spring-sale', 'returning'],
    context: { page: '/checkout/confirm', referrer: 'https://shop.example/cart', viewport: '1440x900' },
    note: '',
  }
  const length = JSON.stringify(base).length
  return JSON.stringify({ ...base, note: 'x'.repeat(Math.max(0, 500 - length)) })
}

/** A JSON array of `count` records from `first` on. */
export function recordArray(first: number, count: number): string {
  return `[${Array.from({ length: count }, (_, index) => record(first + index)).join(',')}]`
}

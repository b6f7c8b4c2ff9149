/** Records of the demos. */

export function some<T>(most: number, make: () => T): T[] {
  return Array.from({ length: 1 + Math.floor(Math.random() * most) }, make)
}

function pick(values: string[]): string {
  return values[Math.floor(Math.random() * values.length)] ?? ''
}

export function order(): Record<string, unknown> {
  const items = some(4, () => ({
    sku: pick(['mug', 'tee', 'pen', 'bag']),
    quantity: 1 + Math.floor(Math.random() * 3),
  }))
  return {
    order_id: crypto.randomUUID(),
    country: pick(['DE', 'FR', 'NL', 'SE']),
    total: Math.round(Math.random() * 9000) / 100,
    items,
  }
}

export function reading(): Record<string, unknown> {
  return {
    sensor: `bed-${1 + Math.floor(Math.random() * 6)}`,
    celsius: 18 + Math.round(Math.random() * 80) / 10,
    unit: 'C',
  }
}

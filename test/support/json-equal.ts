/** Whether two JSON texts say the same, numbers compared digit by digit: 1.10 and 1.1 are one, a rounded one is another. */

/** A form that is the same for the same value. Of two equal keys the last counts. */
export function canonical(json: string): string {
  const marked = json.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (token) =>
    token.startsWith('"') ? `"s${token.slice(1)}` : `"n${canonicalNumber(token)}"`,
  )
  return JSON.stringify(sorted(JSON.parse(marked)))
}

/** Digits and an exponent, without zeros at either end. */
export function canonicalNumber(text: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? []
  const digits = `${whole}${fraction}`.replace(/^0+/, '')
  const significant = digits.replace(/0+$/, '')
  if (significant === '') return '0'
  return `${sign}${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  return Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, inner]) => [key, sorted(inner)])
}

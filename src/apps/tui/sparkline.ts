/** A row of small bars: the newest value at the right, the largest one full height. */
const bars = '▁▂▃▄▅▆▇█'

/** Exactly `width` characters; values that are missing on the left are blanks. */
export function sparkline(values: readonly number[], width: number): string {
  const shown = values.slice(-width)
  const top = Math.max(...shown, 0)
  const text = shown.map((value) => bars[top === 0 ? 0 : Math.ceil((value / top) * (bars.length - 1))] ?? '▁')
  return text.join('').padStart(width)
}

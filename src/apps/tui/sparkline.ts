/** A row of small bars. The newest value is at the right; the largest one has full height. */
const bars = '▁▂▃▄▅▆▇█'

/** Exactly `width` characters. Missing values at the left are blank. */
export function sparkline(values: readonly number[], width: number): string {
  const shown = values.slice(-width)
  const top = Math.max(...shown, 0)
  const text = shown.map((value) => bars[top === 0 ? 0 : Math.ceil((value / top) * (bars.length - 1))] ?? '▁')
  return text.join('').padStart(width)
}

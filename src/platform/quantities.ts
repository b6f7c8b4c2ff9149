/** Formats sizes, counts and durations for people, parses durations, and defines the lengths of time that counters use. */

export const minuteMs = 60_000
export const hourMs = 60 * minuteMs
export const dayMs = 24 * hourMs

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const

/** 1536 → `1.5 KiB`. */
export function bytes(count: number): string {
  let value = count
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit += 1
  }
  return unit === 0 ? `${value} B` : `${value.toFixed(1)} ${units[unit]}`
}

/** 1234567 → `1,234,567`. */
export function count(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ',')
}

/** 1 → `1 record`, 2 → `2 records`. */
export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? '' : 's'}`
}

/** Formats seconds with at most two units: `3d 4h`, `2m 5s`, `7s`. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds))
  const parts: [number, string][] = [
    [Math.floor(whole / 86_400), 'd'],
    [Math.floor((whole % 86_400) / 3_600), 'h'],
    [Math.floor((whole % 3_600) / 60), 'm'],
    [whole % 60, 's'],
  ]
  const first = parts.findIndex(([value]) => value > 0)
  if (first === -1) return '0s'
  return parts
    .slice(first, first + 2)
    .filter(([value]) => value > 0)
    .map(([value, unit]) => `${value}${unit}`)
    .join(' ')
}

const lengths: Record<string, number> = { s: 1, m: 60, h: 3_600, d: 86_400, w: 7 * 86_400 }

/** Parses `90d`, `12h`, `30m`, `45s` or `2w` into seconds. Null for any other text. */
export function parseDuration(text: string): number | null {
  const [, digits, unit] = /^(\d{1,9})([smhdw])$/.exec(text) ?? []
  return digits === undefined ? null : Number(digits) * (lengths[unit ?? ''] ?? 0)
}

/** The time from now until an ISO timestamp. */
export function until(timestamp: string, nowMs: number): string {
  const seconds = (Date.parse(timestamp) - nowMs) / 1000
  return seconds <= 0 ? 'now' : `in ${duration(Math.ceil(seconds))}`
}

/** The time since an ISO timestamp; `never` for null. */
export function ago(timestamp: string | null, nowMs: number): string {
  return timestamp === null ? 'never' : `${duration((nowMs - Date.parse(timestamp)) / 1000)} ago`
}

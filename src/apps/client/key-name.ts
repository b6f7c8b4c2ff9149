/** Suggests a name for a key that replaces another one. Pure. */

/** `default` → `default-20260131T060000`. An earlier time is replaced, so that names do not grow. */
export function nextName(name: string, now: Date): string {
  const time = now.toISOString().replace(/[-:]|\.\d+Z$/g, '')
  return `${name.replace(/-\d{8}T\d{6}$/, '').slice(0, 84)}-${time}`
}

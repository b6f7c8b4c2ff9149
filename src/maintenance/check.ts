/** One line in the output of `pipectl doctor`. */
export interface Check {
  name: string
  result: 'ok' | 'warn' | 'fail'
  detail: string
  /** The next action for the operator; empty if nothing is wrong. */
  next: string
}

/** The possible lines of one check. */
export function checkNamed(name: string) {
  const line =
    (result: Check['result']) =>
    (detail: string, next = ''): Check => ({ name, result, detail, next })
  const ok: (detail: string) => Check = line('ok')
  return { ok, warn: line('warn'), fail: line('fail') }
}

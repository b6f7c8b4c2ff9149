/** One line in the output of `pipectl doctor`. */
export interface Check {
  name: string
  result: 'ok' | 'warn' | 'fail'
  detail: string
  /** The next action for the operator; empty if nothing is wrong. */
  next: string
}

export const ok = (name: string, detail: string): Check => ({ name, result: 'ok', detail, next: '' })
export const warn = (name: string, detail: string, next: string): Check => ({
  name,
  result: 'warn',
  detail,
  next,
})
export const fail = (name: string, detail: string, next: string): Check => ({
  name,
  result: 'fail',
  detail,
  next,
})

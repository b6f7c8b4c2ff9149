/** How work on a data directory fails in ways that are expected: what happened, and what to do next. */

/**
 * `missing`: something that was named is not there; `conflict`: something is in the way; `damaged`: cannot be used; `unfit`: what was
 * asked for makes no sense with these settings.
 */
export type DataDirProblem = 'missing' | 'conflict' | 'damaged' | 'unfit'

export class DataDirError extends Error {
  readonly problem: DataDirProblem
  readonly hint: string

  constructor(problem: DataDirProblem, message: string, hint: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'DataDirError'
    this.problem = problem
    this.hint = hint
  }
}

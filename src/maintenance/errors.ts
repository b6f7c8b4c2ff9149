/** Expected errors of commands on a data directory: what happened, and what to do next. */

/**
 * `missing`: something that the user named does not exist.
 * `conflict`: something that exists prevents the command.
 * `damaged`: the data cannot be used.
 * `unfit`: the command does not apply to these settings.
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

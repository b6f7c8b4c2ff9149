/** Overviews, one after the other: each request says what is known, and gets what has changed. */
import type { Overview } from '../../contract/overview.ts'
import type { Client } from './client.ts'
import { ApiFailure, exitCodes, Failure } from './failure.ts'
import { continued } from './overview.ts'

export class OverviewFeed {
  readonly #client: Pick<Client, 'call' | 'url'>
  #last: Overview | null = null

  constructor(client: Pick<Client, 'call' | 'url'>) {
    this.#client = client
  }

  /** Everything as it is now. A failed request changes nothing of what is known. */
  async next(signal?: AbortSignal): Promise<Overview> {
    const before = this.#last
    const answer = await this.#client
      .call('getOverview', { query: { since: before?.revision }, signal })
      .catch((error: unknown) => {
        throw isUnknownRoute(error) ? olderDaemon(this.#client.url) : error
      })
    this.#last = continued(before, answer.body)
    return this.#last
  }
}

function isUnknownRoute(error: unknown): boolean {
  return error instanceof ApiFailure && error.status === 404
}

/** In the middle of an upgrade: the program is new, the daemon not started again. */
function olderDaemon(url: string): Failure {
  return new Failure(
    exitCodes.failed,
    `the daemon at ${url} is older than this pipectl: it has no overview (GET /v1/overview)`,
    'start the daemon of this version, or use the pipectl that came with the one that runs',
  )
}

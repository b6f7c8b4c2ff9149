/** The most frequent calls of a test to one workspace of a daemon, in short forms. */
export interface Answer<Body = Record<string, unknown>> {
  status: number
  headers: Record<string, string | string[] | undefined>
  body: Body
  text: string
}

export interface CallOptions {
  /** Another key; null: none at all. */
  key?: string | null
  headers?: Record<string, string>
  /** The test has broken the daemon: a 500 is not noted for the catalogue's check, where it would be a bug. */
  isBroken?: boolean
}

export abstract class ApiClient {
  /** False from the moment the daemon was told to stop until it is ready again. */
  abstract readonly isReady: boolean

  /** One call with this workspace's key. */
  abstract api<Body = Record<string, unknown>>(
    method: string,
    apiPath: string,
    body?: unknown,
    options?: CallOptions,
  ): Promise<Answer<Body>>

  /** POST /v1/ingest/{pipe_id}; throws unless it was answered 202. */
  async ingest(
    pipeId: string,
    body: unknown,
    options: CallOptions = {},
  ): Promise<{ msg_id: string; records_count: number }> {
    const answer = await this.api<{ msg_id: string; records_count: number }>(
      'POST',
      `/v1/ingest/${pipeId}`,
      body,
      options,
    )
    if (answer.status !== 202) throw new Error(`ingest answered ${answer.status} ${answer.text}`)
    return answer.body
  }

  /** Creates a pipe and returns its id; throws unless it was answered 201. */
  async createPipe(pipe: Record<string, unknown>): Promise<string> {
    const answer = await this.api<{ pipe_id: string }>('POST', '/v1/pipes', pipe)
    if (answer.status !== 201) throw new Error(`create pipe answered ${answer.status} ${answer.text}`)
    return answer.body.pipe_id
  }

  /** Creates a destination and returns its id; throws unless it was answered 201. */
  async createDestination(pipeId: string, destination: Record<string, unknown>): Promise<string> {
    const answer = await this.api<{ destination_id: string }>(
      'POST',
      `/v1/pipes/${pipeId}/destinations`,
      destination,
    )
    if (answer.status !== 201) throw new Error(`create destination answered ${answer.status} ${answer.text}`)
    return answer.body.destination_id
  }

  /** The lane of a destination, as GET destination shows it. */
  async lane(pipeId: string, destinationId: string): Promise<Record<string, unknown>> {
    const answer = await this.api<{ destination: { lane: Record<string, unknown> } }>(
      'GET',
      `/v1/pipes/${pipeId}/destinations/${destinationId}`,
    )
    return answer.body.destination.lane
  }
}

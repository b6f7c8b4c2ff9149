/** A response that is written piece by piece, for as long as its client stays. */
export interface ResponseStream {
  /** Resolves when the client can take more. False: it has gone, now or before. One piece at a time. */
  write(piece: Buffer): Promise<boolean>
  /** The end of the response. */
  end(): void
}

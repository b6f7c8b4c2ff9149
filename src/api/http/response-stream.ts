/** A response that is written piece by piece while its client stays connected. */
export interface ResponseStream {
  /** Resolves when the client can take more; false if it has disconnected. One piece at a time. */
  write(piece: Buffer): Promise<boolean>
  /** Ends the response. */
  end(): void
}

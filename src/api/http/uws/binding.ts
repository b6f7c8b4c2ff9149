import { createRequire } from 'node:module'

/**
 * Loads the native binding, or throws the loader's error (code UWS_BINDING_UNAVAILABLE). Call it before anything
 * imports a module that needs the binding: an import that fails is rejected twice on Node 20, and the second
 * rejection, which no code can handle, ends the process.
 */
export function loadBinding(): void {
  createRequire(import.meta.url)('uWebSockets.js')
}

/**
 * The parts of uWebSockets' request and response that we use, as types: the binding comes without any.
 *
 * Rules of the binding, kept by `exchange.ts`: a request is only readable until its handler first returns; a response
 * may not be touched after an abort; a handler that neither responds nor registers `onAborted` kills the process.
 */
export interface UwsRequest {
  /** Not percent-decoded. */
  getParameter(index: number): string
  /** Without the question mark; of the whole query. Undefined where there is none. */
  getQuery(): string | undefined
  /** The first of that name only: duplicates show in `forEach` alone. */
  forEach(each: (name: string, value: string) => void): void
}

export interface UwsResponse {
  onAborted(handler: () => void): UwsResponse
  /** The ArrayBuffer is only valid inside the call. */
  onData(handler: (chunk: ArrayBuffer, isLast: boolean) => void): UwsResponse
  onWritable(handler: (offset: number) => boolean): UwsResponse
  writeStatus(status: string | Uint8Array): UwsResponse
  writeHeader(name: string, value: string): UwsResponse
  end(body?: string | Uint8Array, closeConnection?: boolean): UwsResponse
  endWithoutBody(contentLength?: number, closeConnection?: boolean): UwsResponse
  /** Hands over what the socket takes; [all of `body` taken, the response is complete]. */
  tryEnd(body: Uint8Array, totalBytes: number): [boolean, boolean]
  getWriteOffset(): number
  /**
   * Writes a piece of a response whose length is not known. False: the client has not taken all of it, `onWritable`
   * says when.
   */
  write(piece: Uint8Array): boolean
  /** Closes the connection at once: what is in its buffer, read or to be written, is dropped. */
  close(): UwsResponse
  cork(write: () => void): UwsResponse
  getRemoteAddress(): ArrayBuffer
}

export interface UwsApp {
  post(pattern: string, handler: UwsHandler): UwsApp
  get(pattern: string, handler: UwsHandler): UwsApp
  head(pattern: string, handler: UwsHandler): UwsApp
  put(pattern: string, handler: UwsHandler): UwsApp
  patch(pattern: string, handler: UwsHandler): UwsApp
  del(pattern: string, handler: UwsHandler): UwsApp
  options(pattern: string, handler: UwsHandler): UwsApp
  any(pattern: string, handler: UwsHandler): UwsApp
  /** Closes the listen socket and every connection. */
  close(): UwsApp
}

export type UwsHandler = (res: UwsResponse, req: UwsRequest) => void

/** The members of hyper-express's own request that we use, on every route except ingest. */
export interface RouteRequest {
  /** Only while the handler runs. */
  readonly raw: UwsRequest
  readonly method: string
  readonly headers: Record<string, string>
  readonly path: string
  readonly path_parameters: Record<string, string>
  /** Without the question mark. */
  readonly path_query: string
}

export interface RouteResponse {
  readonly raw: UwsResponse
}

import { createRequire } from 'node:module'

/**
 * Loads the native binding, or throws the loader's error (code UWS_BINDING_UNAVAILABLE). Call it before anything
 * imports a module that needs the binding: on Node 20, a failed import rejects twice, and the second rejection, which
 * no code can handle, ends the process.
 */
export function loadBinding(): void {
  createRequire(import.meta.url)('uWebSockets.js')
}

/**
 * The types of the parts of uWebSockets' request and response that we use: the binding comes without any.
 *
 * Rules of the binding, kept by `UwsExchange`: a request is only readable until its handler first returns. A response
 * must not be touched after an abort. A handler that neither responds nor registers `onAborted` kills the process.
 */
export interface UwsRequest {
  /** Not percent-decoded. */
  getParameter(index: number): string
  /** The whole query, without the question mark. Undefined if there is none. */
  getQuery(): string | undefined
  /** Calls `each` for every header, repeated ones each time. */
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
  /** Hands over as many bytes as the socket takes. Returns [the socket took all of them, the response is complete]. */
  tryEnd(body: Uint8Array, totalBytes: number): [boolean, boolean]
  getWriteOffset(): number
  /**
   * Writes a piece of a response whose length is not known. False: the client has not taken all of it; `onWritable`
   * is called when it has.
   */
  write(piece: Uint8Array): boolean
  /** Closes the connection immediately. Bytes in its buffers, received or to be written, are dropped. */
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

/** The members of hyper-express's request that we use, on every route except ingest. */
export interface RouteRequest {
  /** Only valid while the handler runs. */
  readonly raw: UwsRequest
  readonly method: string
  readonly headers: Record<string, string>
  readonly path: string
  readonly path_parameters: Record<string, string>
  /** Without the question mark. */
  /** Undefined without a query, whatever its own types say. */
  readonly path_query: string | undefined
}

export interface RouteResponse {
  readonly raw: UwsResponse
}

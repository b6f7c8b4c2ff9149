/** This node's connection to the other nodes: its requests to them, and its responses to theirs. */
import { NodeRequests, type NodeRequestsOptions } from './node-requests.ts'
import { NodeServer } from './node-server.ts'

export interface NodeLink {
  requests: NodeRequests
  server: NodeServer
  /** Call it before the connection is closed. */
  close(): void
}

/** The caller keeps the connection. Requests are served only after `server.serve`. */
export function openNodeLink(options: NodeRequestsOptions): NodeLink {
  const requests = new NodeRequests(options)
  const server = new NodeServer(options)
  return {
    requests,
    server,
    close() {
      server.close()
      requests.close()
    },
  }
}

/** This node's connection to the others: what it asks them, and what it answers them. */
import { NodeRequests, type NodeRequestsOptions } from './node-requests.ts'
import { NodeServer } from './node-server.ts'

export interface NodeLink {
  requests: NodeRequests
  server: NodeServer
  /** Before the connection is closed. */
  close(): void
}

/** Over a connection that stays the caller's. Nothing is served before `server.serve`. */
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

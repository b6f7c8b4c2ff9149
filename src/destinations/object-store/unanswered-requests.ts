/**
 * Makes every request whose connection closes end with a response or an error. node:http reports neither when a server switches
 * protocols (101) without being asked. The SDK would then wait for its timer (110 s) and retain the object, the request and a
 * listener for the end of the attempt.
 */
import type { Agent, ClientRequest } from 'node:http'

/**
 * The method that node:http calls for each request of an agent. Its documentation lists it for subclasses; its types do not.
 */
interface Requests {
  addRequest(request: ClientRequest, ...rest: unknown[]): void
}

export function endUnanswered(agent: Agent): void {
  const add = (agent as Agent & Requests).addRequest
  const addRequest: Requests['addRequest'] = (request, ...rest) => {
    let isSettled = false
    const settle = () => {
      isSettled = true
    }
    request.once('response', settle).once('error', settle)
    request.once('close', () => {
      if (!isSettled) request.emit('error', closedUnanswered())
    })
    add.call(agent, request, ...rest)
  }
  Object.assign(agent, { addRequest })
}

function closedUnanswered(): Error {
  return Object.assign(new Error('the connection was closed without a response'), { code: 'ECONNRESET' })
}

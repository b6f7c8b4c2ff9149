/** Guards the SDK, which trusts stores and node:http, against responses without a limit and requests without a response. */
import type { Agent, ClientRequest } from 'node:http'
import type { S3Client } from '@aws-sdk/client-s3'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { DeliveryError } from '../driver.ts'

interface Response {
  statusCode?: number
  body?: (AsyncIterable<Buffer> & { destroy(): unknown }) | Uint8Array
}

const centuryMs = 100 * 365 * 86_400_000

/** The maximum size of a response to this command. Infinity: the caller reads the body, and limits it. */
export type ResponseLimit = (command: string, status: number) => number

/** The SDK's XML parser takes quadratic time and 30 times the memory. */
export function boundResponses(
  client: S3Client,
  limitOf: ResponseLimit = () => resourceLimits.storeResponseBytes,
): void {
  client.middlewareStack.add(
    (next, { commandName = '' }) =>
      async (args) => {
        const result = await next(args)
        const response = result.response as Response
        const maxBytes = limitOf(commandName, response.statusCode ?? 0)
        if (response.body !== undefined && !(response.body instanceof Uint8Array) && maxBytes < Infinity)
          response.body = withoutTrailingSpace(await read(response.body, maxBytes))
        return result
      },
    { name: 'boundResponses', step: 'deserialize', priority: 'low' },
  )
  client.middlewareStack.add(
    (next) => (args) => {
      // The SDK adjusts to the store's clock. With an extreme date no further request could be signed.
      const { config } = client
      if (!(Math.abs(config.systemClockOffset) < centuryMs)) config.systemClockOffset = 0
      return next(args)
    },
    { name: 'boundClock', step: 'initialize' },
  )
}

/** Rejects with the network error, or with a DeliveryError if the response is too large. */
async function read(body: AsyncIterable<Buffer> & { destroy(): unknown }, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes <= maxBytes) continue
    body.destroy()
    const message = `The object store sent a response of more than ${maxBytes / 1024} KiB.`
    throw new DeliveryError('transient', 'response_too_large', message)
  }
  return Buffer.concat(chunks)
}

/** The SDK detects an error with status 200 by the end of its text. */
function withoutTrailingSpace(body: Buffer): Buffer {
  let end = body.length
  while (end > 0 && [0x20, 0x09, 0x0a, 0x0d].includes(body[end - 1] ?? 0)) end -= 1
  return body.subarray(0, end)
}

/**
 * The method that node:http calls for each request of an agent. Its documentation lists it for subclasses; its types do not.
 */
interface Requests {
  addRequest(request: ClientRequest, ...rest: unknown[]): void
}

/**
 * Makes every request whose connection closes end with a response or an error. node:http reports neither when a server switches
 * protocols (101) without being asked. The SDK would then wait for its timer (110 s) and retain the object, the request and a
 * listener for the end of the attempt.
 */
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

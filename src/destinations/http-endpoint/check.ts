/** POST destinations/test for HTTP endpoints: a HEAD request, since a test must not post anything. */
import { openSecretsAdvice } from '../../contract/header-names.ts'
import type { DestinationCheck, DriverSettings, HttpEndpointSpec } from '../driver.ts'
import { networkError } from '../network-error.ts'
import { openEndpoint } from './request.ts'
import { responseError } from './response.ts'

export async function checkHttpEndpoint(
  spec: HttpEndpointSpec,
  settings: DriverSettings,
  signal: AbortSignal,
): Promise<DestinationCheck[]> {
  const endpoint = openEndpoint(spec, settings)
  const advice = openSecretsAdvice(spec.config.headers)
  const result = (ok: boolean, message: string) => [
    { name: 'url_reachable', ok, message },
    // Only a note, not a failure: only the user knows what the value of a header is.
    ...(advice === null ? [] : [{ name: 'secret_headers', ok: true, message: `Note: ${advice}` }]),
  ]
  try {
    const response = await endpoint.send({ method: 'HEAD' }, signal)
    const { status } = response
    if (status === 405)
      return result(
        false,
        'The endpoint is reachable, but responded 405 to a HEAD request, so it was not tested further.',
      )
    const error = responseError(response, Date.now(), { secrets: endpoint.secrets })
    return error === null
      ? result(true, `The endpoint responded ${status} to a HEAD request.`)
      : result(false, `${error.message} (This was a HEAD request; nothing was posted.)`)
  } catch (error) {
    return result(false, networkError(error, 'The endpoint').message)
  } finally {
    await endpoint.close()
  }
}

/** The listeners of the daemon, according to its settings. */
import type { Settings } from '../settings/settings.ts'
import type { Surface } from './http/server.ts'
import type { CertificateFiles } from './tls/certificate-files.ts'

/** Returns the certificate files of a listener, by its setting; null: it serves plain HTTP. */
export function certificateFiles(settings: Settings, listener: string): CertificateFiles | null {
  const own = listener === 'data_listen' && settings['tls.data_cert_file'] !== null
  const certSetting = own ? 'tls.data_cert_file' : 'tls.cert_file'
  const keySetting = own ? 'tls.data_key_file' : 'tls.key_file'
  const certFile = settings[certSetting]
  const keyFile = settings[keySetting]
  return certFile === null || keyFile === null ? null : { certFile, keyFile, certSetting, keySetting }
}

/** True if ingest and pull are on a listener with TLS. */
export function servesDataOverTls(settings: Settings): boolean {
  return surfaces(settings).some(({ name, data }) => data && certificateFiles(settings, name) !== null)
}

/**
 * With a second listener, the first one does not serve ingest and pull: the public listener must not expose management.
 */
export function surfaces(settings: Settings): Surface[] {
  const { listen, data_listen: dataListen } = settings
  if (dataListen === null) return [{ name: 'listen', listen, management: true, data: true }]
  return [
    { name: 'listen', listen, management: true, data: false },
    { name: 'data_listen', listen: dataListen, management: false, data: true },
  ]
}

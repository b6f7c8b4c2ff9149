/** Opens the certificates of all listeners, and follows changes of their files until they are closed. */
import { certificateFiles, surfaces } from '../api/surfaces.ts'
import { ListenerCertificate } from '../api/tls/listener-certificate.ts'
import type { Settings } from '../settings/settings.ts'
import type { StartContext } from './start-context.ts'

/** The certificates of all TLS listeners. Throws ConfigError. */
export function openCertificates(
  settings: Settings,
  { log, shutdown }: Pick<StartContext, 'log' | 'shutdown'>,
): ListenerCertificate[] {
  const opened: ListenerCertificate[] = []
  shutdown.set('close certificates', () => {
    for (const certificate of opened) certificate.close()
  })
  for (const { name: listener } of surfaces(settings)) {
    const files = certificateFiles(settings, listener)
    if (files !== null) opened.push(new ListenerCertificate({ listener, files, log }))
  }
  return opened
}

/** Reads the files that the settings name now (SIGHUP). Whether a listener uses TLS is decided at the start. */
export function reloadCertificates(certificates: readonly ListenerCertificate[], settings: Settings): void {
  for (const certificate of certificates) {
    certificate.reload(certificateFiles(settings, certificate.listener) ?? undefined)
  }
}

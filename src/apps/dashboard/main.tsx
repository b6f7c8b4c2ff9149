/** Starts the application. */
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { App } from './app/app.tsx'
import { applyTheme } from './app/theme.ts'
import './ui/tokens.css'
import './ui/base.css'

applyTheme()
const place = document.getElementById('root')
if (place === null) throw new Error('index.html has no #root')
createRoot(place).render(
  <StrictMode>
    <App />
  </StrictMode>,
)

'use strict';
// The record is in the page once; it is shown and saved from there.
const record = document.getElementById('results').textContent;
document.getElementById('raw').addEventListener('toggle', (event) => {
  const place = event.target.querySelector('pre');
  if (event.target.open && !place.textContent) place.textContent = record;
});
const save = document.getElementById('save');
save.hidden = false;
save.addEventListener('click', () => {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([record], { type: 'application/json' }));
  link.download = 'results.json';
  link.click();
  URL.revokeObjectURL(link.href);
});

#include <stdio.h>

/* Prints a file, or why it cannot. */
int main(int count, char **arguments) {
  FILE *file = count > 1 ? fopen(arguments[1], "r") : NULL;
  if (!file) {
    perror("open");
    return 1;
  }
  for (int c; (c = getc(file)) != EOF;) putchar(c);
  return 0;
}
